"""Three people, one day: generative agents that plan, meet, talk and remember.

    python recipes/town.py [--model MODEL] [--live] [--hours N] [--seed N]

After Park et al. 2023 (arXiv:2304.03442), small. Each hour everyone decides where to go (a choice
by likelihood), and whoever meets somebody picks a topic (another) and says one sentence about it,
whose beginning is given; what was said is remembered. The three decide at the same time, and what
they know of the town is computed once. The provided model ends a sentence well, and seldom moves a
person with good reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from common import arguments, console, count, opened, run

from agentrt import State, gather, program

PLACES = ["the bakery", "the library", "the park", "home"]
TOWN = f"Fernhill is a small town. Its places are {', '.join(PLACES)}. It is a sunny Saturday."
OPENINGS = {
    "the weather": "It is so sunny today that",
    "bread": "The best bread is",
    "a book": "I have just read a book about",
    "lunch": "For lunch I would like",
    "an old friend": "An old friend of mine lives",
}


@dataclass
class Person:
    name: str
    about: str
    place: str = "home"
    memory: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


PEOPLE = [
    Person("Ida", "a retired teacher who reads a lot and likes company"),
    Person("Tom", "a baker who is up early and loves to talk about bread"),
    Person("Mara", "a student who is writing a paper and gets hungry at noon"),
]


def begin(s: State, person: Person, hour: int) -> None:
    """What a person knows: the town first, since everybody shares that."""
    s.system(TOWN)
    recent = " ".join(person.memory[-3:]) or "Nothing has happened yet."
    s.user(
        f"You are {person.name}, {person.about}. {recent} It is {hour}:00 and you are at "
        f"{person.place}."
    )


@program
async def decide(s: State, person: Person, hour: int) -> str:
    begin(s, person, hour)
    s.assistant("I am going to")
    return (await s.select([f" {place}" for place in PLACES], by="unconditional")).strip()


@program(temperature=0.8, max_tokens=20)
async def speak(s: State, person: Person, to: str, hour: int) -> str:
    """What is said: its topic is chosen, its end is free, and stops at the end of a sentence."""
    begin(s, person, hour)
    topics = [topic for topic in OPENINGS if topic not in person.told]
    s.user(f"You meet {to} and talk. What about?")
    asked = s.copy()
    topic = await asked.select(topics or list(OPENINGS), by="unconditional")
    person.told.append(topic)
    s.user(f"Say one short sentence to {to} about {topic}.")
    opening = OPENINGS[topic]
    s.assistant(opening)
    said = await s.gen(stop=[".", "!", "?", "\n", '"', ","])
    return f"{opening}{said.rstrip()}."


async def live(hour: int, seed: int) -> None:
    places = await gather(*(decide(person, hour) for person in PEOPLE))
    for person, place in zip(PEOPLE, places, strict=True):
        person.place = place
    console.print(f"[bold]{hour}:00[/]  " + ", ".join(f"{p.name}: {p.place}" for p in PEOPLE))
    met = [(a, b) for a in PEOPLE for b in PEOPLE if a is not b and a.place == b.place]
    said = await gather(
        *(
            speak.using(seed=seed * 1000 + hour * 10 + number)(a, b.name, hour)
            for number, (a, b) in enumerate(met)
        )
    )
    for (a, b), words in zip(met, said, strict=True):
        console.print(f"       {a.name} to {b.name}: {words}")
        a.memory.append(f"You told {b.name}: {words}")
        b.memory.append(f"{a.name} told you: {words}")


CAVEAT = (
    "A model of 135 million parameters ends sentences well, but contradicts itself and goes where "
    "it goes without a reason. --model takes a larger one."
)


async def main() -> None:
    args = arguments(
        __doc__,
        hours=(count, 4, "how often the three decide and talk"),
        seed=(int, 1, "of what they say"),
    )
    async with opened(args):
        for number in range(args.hours):
            await live(8 + 3 * number, args.seed)
        if args.model is None:
            console.print(CAVEAT, style="dim")


if __name__ == "__main__":
    run(main)
