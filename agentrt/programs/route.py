"""Routing: which of several labels a text has, by likelihood; and who is to deal with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from agentrt.errors import InvalidRequest
from agentrt.programs.answers import texts_of
from agentrt.programs.arguments import wrong
from agentrt.programs.asking import awaited
from agentrt.programs.program import program
from agentrt.programs.scoring import probabilities

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentrt.programs.state import State
    from agentrt.runtime.selecting import Normalisation

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Classified:
    """The label that was chosen, and how probable each one is (see `probabilities`)."""

    label: str
    shares: dict[str, float]

    @property
    def confidence(self) -> float:
        """The probability of the label that was chosen."""
        return self.shares[self.label]


@program
async def classify(
    s: State,
    text: str,
    labels: Mapping[str, str] | Sequence[str],
    *,
    question: str = "Which label fits this text best?",
    examples: Sequence[tuple[str, str]] = (),
    by: Normalisation = "probability",
) -> Classified:
    """Chooses the label that the model finds likeliest for a text.

    `labels` are names, or names with what each is for. `examples` are (text, label) pairs. Both
    come before the text, so that many texts share them, computed once. `by` is how they are ranked
    (see `Runtime.select`): by default the label is the one with the greatest share; "unconditional"
    helps where the model prefers some labels whatever the text. Raises InvalidRequest for an
    example of no known label, and what `State.select` raises.
    """
    names = texts_of(labels, "labels")
    told = [f"{name}: {labels[name]}" if isinstance(labels, Mapping) else name for name in names]
    s.system(f"{question} The labels:\n" + "\n".join(f"- {line}" for line in told))
    for shown, label in examples:
        if label not in names:
            raise InvalidRequest(f"an example has the label {label!r}; there are {names}")
        s.user(shown)
        s.assistant(label)
    s.user(text)
    label = await s.select(names, name="label", by=by)
    selection = s.result("label").selection
    assert selection is not None
    return Classified(label, probabilities(selection))


@dataclass(frozen=True, slots=True)
class Route(Generic[T]):
    """Somewhere a text may go: what it is for, and who deals with it."""

    about: str
    handle: Callable[[str], T | Awaitable[T]]


async def route(
    text: str,
    routes: Mapping[str, Route[T]],
    *,
    at_least: float = 0.0,
    otherwise: str | None = None,
) -> T:
    """Gives a text to the route it belongs to; returns what its handler returns.

    Below `at_least` confidence it goes to the route named `otherwise`. Handlers are programs or any
    functions of the text. Raises InvalidRequest where there is no such route, and what `classify`
    and the handler raise.
    """
    if otherwise is not None and otherwise not in routes:
        raise InvalidRequest(f"otherwise={otherwise!r} is none of the routes {list(routes)}")
    for name, each in routes.items():
        if not isinstance(each, Route):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong(f"routes[{name!r}]", each, "a Route: what it is for, and who deals with it")
    found = await classify(text, {name: each.about for name, each in routes.items()})
    if found.confidence < at_least and otherwise is not None:
        return await awaited(routes[otherwise].handle(text))
    return await awaited(routes[found.label].handle(text))
