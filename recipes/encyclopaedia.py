"""Questions to a small encyclopaedia, by thinking, looking up and calculating in turn (ReAct).

    python recipes/encyclopaedia.py [--model MODEL] [--live] [--question "..."] [--turns N]

There is `search`, which finds the best of twenty articles, and for a question with a sum in it,
`calculator`, which takes that sum. Nothing is written freely: a thought names an article that there
is, or the sum; a call is one that can be made, because its JSON is constrained to the tools' types;
and the answer is a quotation, the likeliest of the sentences that the tools gave. So the provided
model can only take the wrong article or the wrong sentence, and mostly takes the right ones.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections import Counter
from typing import Annotated, Literal

from common import DATA, arguments, console, count, opened, run, words
from pydantic import Field

from agentrt import Retry, State, Tool, program, tool
from agentrt.programs import Reacted, react

ARTICLES: dict[str, str] = json.loads((DATA / "encyclopaedia.json").read_text(encoding="utf-8"))
QUESTIONS = [
    "How tall is the Eiffel Tower, in metres?",
    "How many hearts does an octopus have?",
    "In which year was Marie Curie born?",
    "What is 52 + 36?",
]
OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}
Query = Annotated[str, Field(max_length=40, description="a few words")]
SUM = re.compile(r"\d{1,6}(?: ?[-+*/] ?\d{1,6}){1,3}")
Sum = Annotated[str, Field(pattern=rf"^{SUM.pattern}$")]


@tool
def search(query: Query) -> str:
    """Finds an article of the encyclopaedia."""
    asked = words_of(query)
    rarity = Counter(word for article in ARTICLES.items() for word in words_of(" ".join(article)))

    def closeness(title: str) -> float:
        shared = asked & words_of(f"{title} {ARTICLES[title]}")
        return sum((3 if word in words_of(title) else 1) / rarity[word] for word in shared)

    best = max(ARTICLES, key=closeness)
    if not closeness(best):
        raise Retry(f"there is nothing about {query!r}")
    return f"{best}: {ARTICLES[best]}"


@tool
def calculator(expression: Sum) -> str:
    """Works out plain arithmetic."""
    return f"{expression} = {evaluated(ast.parse(expression, mode='eval').body):g}"


def tools_for(question: str) -> list[Tool]:
    """The calculator, for the sums that stand in the question; the search where none does."""
    sums = SUM.findall(question)
    if not sums:
        return [search]

    @tool(name="calculator")
    def worked_out(expression: Literal[tuple(sums)]) -> str:  # type: ignore[valid-type]
        """Works out plain arithmetic."""
        return calculator(expression)

    return [worked_out]


def thoughts_on(question: str) -> str:
    """What may be thought, as a regex: of a sum in the question, else of an article."""
    sums = SUM.findall(question)
    if sums:
        return rf"I calculate ({'|'.join(map(re.escape, sums))})\."
    return rf"I look up the article about ({'|'.join(map(re.escape, ARTICLES))})\."


def words_of(text: str) -> set[str]:
    """The words of a text, a plural like its singular."""
    return {word.rstrip("s") for word in re.findall(r"\w+", text.lower())}


def evaluated(node: ast.expr) -> float:
    """The value of plain arithmetic; nothing else is ever run."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=op, operand=value) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](evaluated(value))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](evaluated(left), evaluated(right))
    raise ValueError(f"{ast.unparse(node)!r} is no plain arithmetic")


# What a turn looks like, told by example: (question, thought, tool, arguments, conclusion, answer).
SOLVED = [
    (
        "How fast does light travel?",
        "I look up the article about Light.",
        search,
        {"query": "how fast light travels"},
        "Light travels 299792 kilometres in a second.",
        "299792 kilometres in a second",
    ),
    (
        "What is 15 * 4?",
        "I calculate 15 * 4.",
        calculator,
        {"expression": "15 * 4"},
        "15 * 4 is 60.",
        "60",
    ),
    (
        "Who was Johannes Gutenberg?",
        "I look up the article about Printing press.",
        search,
        {"query": "Johannes Gutenberg"},
        "Gutenberg built the printing press.",
        "the builder of the printing press",
    ),
]


@program(max_tokens=40)
async def answer(s: State, question: str, turns: int) -> tuple[Reacted, str]:
    """ReAct, after examples that all questions share; and the sentence to quote, if any."""
    for asked, thought, used, given, conclusion, known in SOLVED:
        s.user(asked)
        s.assistant(f"Thought: {thought}\nNext: act")
        s.user("Call a tool.")
        s.assistant(json.dumps({"name": used.name, "arguments": given}, separators=(",", ":")))
        s.user(f"Result of {used.name}: {used(**given)}")
        s.assistant(f"Thought: {conclusion}\nNext: finish")
        s.user(f"Now the answer, in a few words, to: {asked}")
        s.assistant(known)
    found = await react.using(max_tokens=40).on(
        s, question, tools_for(question), turns=turns, thoughts=thoughts_on(question)
    )
    return found, await quoted(question, found)


@program
async def quoted(s: State, question: str, found: Reacted) -> str:
    """The sentence, of those that the tools gave, that the question makes likeliest."""
    parts = [part.strip() for part in given_by_tools(found).split(".")]
    sentences = list(dict.fromkeys(part for part in parts if part))
    if len(sentences) < 2:
        return "".join(sentences)
    s.user(f"{question} Answer in one sentence.")
    return await s.select(sentences, by="unconditional")


def given_by_tools(found: Reacted) -> str:
    return " ".join(result.text for turn in found.turns for result in turn.results if result.ok)


def show(question: str, found: Reacted, quotation: str) -> None:
    console.print(f"[bold]{question}[/]")
    for turn in found.turns:
        console.print(f"  thought  {turn.thought}", markup=False)
        for result in turn.results:
            console.print(f"  {result.call.name}  {result.call.arguments}", markup=False)
            console.print(f"  found    {result.text}", markup=False, style="dim")
    console.print("  answer  ", f"[bold]{quotation or 'nothing was found'}[/]\n")


CAVEAT = (
    "A model of 135 million parameters finds most articles, and may quote the wrong sentence of "
    "one. --model takes a larger one."
)


async def main() -> None:
    args = arguments(
        __doc__,
        question=(words, None, "asked instead of the four that are here"),
        turns=(count, 1, "most calls of a tool"),
    )
    async with opened(args):
        for question in [args.question] if args.question else QUESTIONS:
            show(question, *await answer(question, args.turns))
        if args.model is None:
            console.print(CAVEAT, style="dim")


if __name__ == "__main__":
    run(main)
