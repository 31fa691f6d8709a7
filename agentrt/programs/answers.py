"""What is asked for: how the decoder is bound to it, and how its text becomes a value."""

from __future__ import annotations

import inspect
import reprlib
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

import numpy as np

from agentrt.errors import GenerationFailed, InvalidRequest, Retry, UsageError
from agentrt.generation import FinishReason
from agentrt.programs.arguments import check_kind, check_text, wrong
from agentrt.programs.asking import awaited
from agentrt.schema import (
    compile_choices,
    compile_regex,
    compile_schema,
    compiled_in_thread,
    schema_of,
)
from agentrt.schema.compile import DIGITS
from agentrt.schema.copying.marks import without_source
from agentrt.schema.types import adapter
from agentrt.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    from agentrt.generation import Completion
    from agentrt.programs.state import State
    from agentrt.runtime.runtime import Runtime
    from agentrt.schema import Grammar, Vocabulary

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """`grammar` is None for free text. `read` makes the value of a text, and may raise
    pydantic.ValidationError. `schema` is there where the text is JSON. `wanted` names it."""

    wanted: str
    grammar: Grammar | None
    read: Callable[[str], T]
    schema: dict[str, Any] | None = None


_answers: dict[Hashable, Answer[Any]] = {}
_MOST = 64  # of those lately asked for
_worked_out: WeakSet[Runtime] = WeakSet()  # whose vocabulary is


async def answer_of(
    kind: Any,
    runtime: Runtime,
    *,
    regex: str | None = None,
    choices: Sequence[str] | None = None,
) -> Answer[Any]:
    """How to ask for a type, a JSON schema (a dict), a regex, or one of several texts.

    Worked out the first time, in a thread. Raises InvalidRequest for a contradiction, SchemaError
    for what cannot be enforced.
    """
    check_kind(kind)
    named = [n for n, v in (("regex", regex), ("choices", choices)) if v is not None]
    if len(named) == 2 or (named and kind is not str):
        given = " and ".join([*([] if kind is str else [f"the type {name_of(kind)}"]), *named])
        raise InvalidRequest(f"{given} were given; an answer is asked for in one way at a time")
    if choices is not None:
        texts = tuple(dict.fromkeys(texts_of(choices)))
        return await _kept(("choices", texts), runtime, partial(_of_choices, texts))
    if regex is not None:
        check_text("regex", regex)
        return await _kept(("regex", regex), runtime, partial(_of_regex, regex))
    if kind is str:
        return Answer("text", None, str)
    return await _kept(("type", _key(kind)), runtime, partial(_of_type, kind))


async def check_answer(s: State, kind: Any, regex: str | None) -> None:
    """Raises what `answer_of` would for what a program is to end in, before it asks anything."""
    await answer_of(kind, s.runtime, regex=regex)


async def vocabulary_of(runtime: Runtime) -> Vocabulary:
    """The runtime's vocabulary, which takes a while the first time; in a thread, then."""
    if runtime not in _worked_out:
        await in_thread(lambda: runtime.vocabulary.identity)
        _worked_out.add(runtime)
    return runtime.vocabulary


async def _kept(
    key: Hashable, runtime: Runtime, make: Callable[[Vocabulary], Awaitable[Answer[Any]]]
) -> Answer[Any]:
    vocabulary = await vocabulary_of(runtime)
    whole = (vocabulary.identity, key)
    found = _answers.pop(whole, None)
    if found is None:
        found = await make(vocabulary)
        if len(_answers) >= _MOST:
            _answers.pop(next(iter(_answers)), None)
    _answers[whole] = found  # the last of them is the one asked for last
    return found


async def _of_choices(texts: tuple[str, ...], vocabulary: Vocabulary) -> Answer[str]:
    grammar = await compiled_in_thread(partial(compile_choices, texts, vocabulary))
    return Answer(f"one of {reprlib.repr(list(texts))}", grammar, str)


async def _of_regex(regex: str, vocabulary: Vocabulary) -> Answer[str]:
    grammar = await compiled_in_thread(partial(compile_regex, regex, vocabulary))
    return Answer(f"the regex {reprlib.repr(regex)}", grammar, str)


async def _of_type(kind: Any, vocabulary: Vocabulary) -> Answer[Any]:
    schema = kind if isinstance(kind, dict) else schema_of(kind)
    grammar = await compiled_in_thread(partial(compile_schema, kind, vocabulary, max_digits=DIGITS))
    read = adapter(Any if isinstance(kind, dict) else kind).validate_json
    return Answer(name_of(kind), grammar, read, schema)


def name_of(kind: Any) -> str:
    """A type as a person would call it."""
    kind = without_source(kind)
    if isinstance(kind, dict):
        title: object = kind.get("title")  # pyright: ignore[reportUnknownMemberType]
        return str(title) if title else "a JSON schema"
    if isinstance(kind, type) and not getattr(kind, "__args__", None):
        return kind.__name__
    return str(kind).replace("typing.", "")


def texts_of(given: Any, name: str = "choices") -> tuple[str, ...]:
    """Several texts. Raises InvalidRequest for none, empty ones and what is no text."""
    texts: list[Any] = [] if isinstance(given, str) else _listed(given)
    for text in texts:
        if not isinstance(text, str) or not text:
            raise wrong(name, texts, "texts that are not empty")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise wrong(name, texts, f"texts that are valid Unicode ({error})") from error
    if not texts:
        raise wrong(name, given, "one text or more, in a list")
    return tuple(texts)


def _listed(given: Any) -> list[Any]:
    try:
        return list(given)
    except TypeError:
        return []


def _key(kind: Any) -> Hashable:
    try:
        hash(kind)
    except TypeError:
        return repr(kind)
    return kind


def check_whole(answer: Answer[Any], completion: Completion) -> None:
    """Raises GenerationFailed for an answer in JSON that was cut by its length."""
    if answer.grammar is None or answer.schema is None:
        return
    if completion.finish_reason is FinishReason.LENGTH and not answer.grammar.matches(
        completion.text
    ):
        raise GenerationFailed(
            f"the answer for {answer.wanted} was cut after {len(completion.token_ids)} tokens and "
            f"is no whole JSON: {reprlib.repr(completion.text)}; raise max_tokens"
        )


def warn_if_closed(answer: Answer[Any], completion: Completion) -> None:
    """Warns of an object or a list that its tokens ran out for: its end is what was shortest.

    Where the limit forbade nothing, as of a type whose values all fit, there is nothing to tell.
    """
    is_over = completion.finish_reason is FinishReason.LENGTH
    if answer.grammar is None or not is_over or completion.text[:1] not in ("{", "["):
        return
    count = len(completion.token_ids)
    if answer.schema is not None and _was_hurried(answer.grammar, completion):
        warnings.warn(
            f"the answer for {answer.wanted} came to its limit of {count} tokens: what it ends "
            "with is as short as can be, and may be anything; bound its lists and texts, as by "
            "Field(max_length=8), or raise max_tokens",
            stacklevel=_frames_of_ours(),
        )


def _was_hurried(grammar: Grammar, completion: Completion) -> bool:
    """Whether there was anything that only the limit forbade."""
    matcher = grammar.matcher()
    for at, token in enumerate(completion.token_ids):
        hurried, free = matcher.next(len(completion.token_ids) - at), matcher.next()
        if not np.array_equal(hurried.mask, free.mask):
            return True
        matcher.accept(token)
    return False


def _frames_of_ours() -> int:
    """How far up the stack the caller of this package is, seen from who asks."""
    frame, count = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("agentrt."):
        frame, count = frame.f_back, count + 1
    return count


async def objection(check: Callable[[T], Any] | None, value: T) -> str | None:
    """Why `check` will not have a value; None where it will."""
    if check is None:
        return None
    try:
        verdict = await awaited(check(value))
    except Retry as retry:
        return retry.reason
    except UsageError:  # a mistake in the check itself is nothing to tell the model
        raise
    except ValueError as error:
        return str(error)
    is_no = isinstance(verdict, bool | np.bool_) and not verdict
    return "it does not pass the check." if is_no else None
