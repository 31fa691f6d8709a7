"""Programs: async functions that are given a fresh state, and recorded as one run of steps."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from agentrt.errors import InvalidRequest
from agentrt.programs.ambient import ensure_runtime, run_sync
from agentrt.programs.arguments import check_name, wrong
from agentrt.programs.budget import Budget
from agentrt.programs.state import State
from agentrt.runtime.checks import make_params, meant
from agentrt.trace import SpanKind, attributes, span

if TYPE_CHECKING:
    from agentrt.generation import SamplingOptions

P = ParamSpec("P")
T = TypeVar("T")
Body = Callable[Concatenate[State, P], Awaitable[T]]
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


class Program(Generic[P, T]):
    """An async function of a state; made by :func:`program`.

    Call it without the state: `await solve("...")` gives it a fresh one of the current runtime.
    `await solve.on(state, "...")` lets it go on from a state of yours. `solve.sync("...")` runs it
    from code that is not async. `solve.using(seed=7)` is the same program with other defaults.
    """

    def __init__(
        self,
        body: Body[P, T],
        *,
        name: str | None = None,
        budget: Budget | None = None,
        **defaults: Unpack[SamplingOptions],
    ) -> None:
        if not inspect.iscoroutinefunction(body):
            raise InvalidRequest(
                f"@program is for `async def f(s: State, ...)`; "
                f"{getattr(body, '__name__', body)!r} is not async"
            )
        if name is not None:
            check_name("name", name)
        if not isinstance(budget, Budget | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong("budget", budget, "a Budget, or None")
        make_params("name", "budget", **defaults)
        functools.update_wrapper(self, body)
        self.name = name or body.__name__
        self._body = body
        self._budget = budget
        self._defaults = defaults
        self.__signature__ = _without_state(body)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.on(State(), *args, **kwargs)

    async def on(self, state: State, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs it on a state that something was said in already.

        Its own defaults go before those of the state. Raises InvalidRequest while another program
        runs on it at the same time.
        """
        if not isinstance(state, State):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong("state", state, "the State to go on from")
        described = {attributes.PROGRAM_ARGUMENTS: lambda: _described(args, kwargs)}
        with (
            span(SpanKind.PROGRAM, self.name, described, parent=state.span) as current,
            self._budget.fresh() if self._budget is not None else nullcontext(),
            state.running(current, self._defaults),
        ):
            result = await self._begun(state, *args, **kwargs)
            current.set({attributes.PROGRAM_RESULT: lambda: _shown(result)})
            return result

    def _begun(self, state: Any, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """The body, called. Raises InvalidRequest for arguments that it does not take."""
        try:
            return self._body(state, *args, **kwargs)  # which runs nothing of it yet
        except TypeError as error:
            signature = self.__signature__
            said = str(error).partition("() ")[2].partition(". Did you mean")[0] or str(error)
            unknown = [name for name in kwargs if name not in signature.parameters]
            takes = f"it takes {_bare(signature)}"
            hint = meant(unknown[0], signature.parameters, takes) if unknown else takes
            raise InvalidRequest(f"{self.name} {said}; {hint}") from None

    def using(
        self, *, budget: Budget | None = None, **defaults: Unpack[SamplingOptions]
    ) -> Program[P, T]:
        """The same program with other defaults or another budget.

        await self_consistency.using(seed=7, temperature=1.0)("How many ...?")

        Raises InvalidRequest for options that make no sense.
        """
        make_params("budget", **defaults)
        return Program(
            self._body,
            name=self.name,
            budget=budget or self._budget,
            **{**self._defaults, **defaults},
        )

    @property
    def options(self) -> dict[str, Any]:
        """What it was made with beside its body: its defaults, and the limits of its budget."""
        return {**self._defaults, "budget": self._budget and repr(self._budget)}

    def sync(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs it to its end from code that is not async, also where an event loop runs already.

        Outside `async with Runtime()` it uses one that is opened for the process.
        """
        cast("Coroutine[Any, Any, T]", self._begun(None, *args, **kwargs)).close()  # or is refused

        async def run() -> T:
            await ensure_runtime()
            return await self(*args, **kwargs)

        return run_sync(run)

    def __repr__(self) -> str:
        return f"<program {self.name}>"


@overload
def program(body: Body[P, T], /) -> Program[P, T]: ...
@overload
def program(
    *,
    name: str | None = None,
    budget: Budget | None = None,
    **defaults: Unpack[SamplingOptions],
) -> Callable[[Body[P, T]], Program[P, T]]: ...
def program(body: Body[P, T] | None = None, /, **options: Any) -> Any:
    """Makes a program of `async def f(s: State, ...) -> T`, called as `await f(...)`.

        @program
        async def answer(s: State, question: str) -> str:
            s.user(question)
            return await s.gen()

    With options: `budget` limits every run, sampling options are the defaults of its generations,
    and with a `seed` those that sample are repeatable. It keeps its signature, less the state.
    Raises InvalidRequest, at once, for options that make no sense.
    """
    if body is not None:
        return Program(body)
    return functools.partial(Program, **options)


def _without_state(body: Callable[..., Any]) -> inspect.Signature:
    """The signature that callers see."""
    signature = inspect.signature(body)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in _POSITIONAL:
        raise InvalidRequest(
            f"@program is for `async def f(s: State, ...)`; {body.__name__}{signature} takes no "
            "state"
        )
    if parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return signature
    return signature.replace(parameters=parameters[1:])


def _bare(signature: inspect.Signature) -> str:
    """Its parameters and their defaults, without what types they are."""
    empty = inspect.Signature.empty
    parameters = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return str(inspect.Signature(parameters))


def _described(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    parts = [_shown(value) for value in args]
    return ", ".join([*parts, *(f"{name}={_shown(value)}" for name, value in kwargs.items())])


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 2_000 else f"{text[:2_000]}..."
