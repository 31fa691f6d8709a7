"""State: what a program has said and heard so far, and the calls that go on from it."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from agentrt.errors import AnswerRejected, Attempt, InvalidRequest, PromptTooLong
from agentrt.programs.answers import answer_of, objection, texts_of
from agentrt.programs.arguments import check_count, check_hook, check_name, wrong
from agentrt.programs.budget import reserved
from agentrt.programs.combine import gather
from agentrt.programs.conversation import Conversation
from agentrt.programs.generating import Asking, counted, generated, granted, mended, selected
from agentrt.programs.options import read_options
from agentrt.programs.places import Place, here
from agentrt.programs.streams import Growth, StateStream
from agentrt.runtime.checks import make_params
from agentrt.runtime.runtime import Runtime, current_runtime
from agentrt.trace import SpanKind, inside, start_span

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence

    from agentrt.generation import SamplingOptions
    from agentrt.programs.answers import Answer
    from agentrt.programs.generating import Result
    from agentrt.programs.options import GenOptions
    from agentrt.programs.transcript import Transcript
    from agentrt.runtime.selecting import Normalisation
    from agentrt.schema import Partial
    from agentrt.trace import Span

T = TypeVar("T")
Item = TypeVar("Item")
C = TypeVar("C", bound=str)

_runs: ContextVar[tuple[object, ...]] = ContextVar("agentrt_runs", default=())  # around this task


class State(Conversation):
    """The conversation of one branch of a program.

        s.system("You are brief.")
        s.user("Name a colour.")
        colour = await s.gen(name="colour", max_tokens=8)
        s.user("Its hex code?")
        code = await s.gen(regex="#[0-9a-f]{6}")

    Roles append. A generation goes on in the assistant's turn, so `s.assistant("Answer:")` before
    it begins the answer. `s.text(...)` in place of roles is a plain prompt, for base models. A fork
    has all that was said before it, costs nothing to make, and shares the computed prefix.

    Sampling options given here are the defaults of every generation. With a `seed`, each generation
    that samples gets a seed of its own from it, by its place in the tree of forks: the same program
    on the same input then gives the same answers, in whatever order its branches run. A state made
    without a seed inside a program that has one gets its own from it, so that programs called from
    programs are repeatable too, also in branches of `each`, `gather`, `race` and `map`. Tasks of a
    group made by hand know no order but that in which they come to it: give them forks or seeds.
    `origin` is the runtime to ask (the current one unless given), or a state to go on from, whose
    defaults are kept where no others are given. Raises InvalidRequest for options that make no
    sense.
    """

    def __init__(
        self,
        origin: Runtime | State | None = None,
        **defaults: Unpack[SamplingOptions],
    ) -> None:
        if not isinstance(origin, Runtime | State | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong("origin", origin, "a Runtime, a State to go on from, or nothing")
        make_params("origin", **defaults)
        outer = origin if isinstance(origin, State) else None
        runtime = outer.runtime if outer is not None else cast("Runtime | None", origin)
        super().__init__(runtime if runtime is not None else current_runtime(), outer)
        seed = defaults.pop("seed", None)
        if outer is not None:
            (place,) = outer._place.branches(1)
            self._place = place if seed is None else Place(seed, place.path)
            self._defaults: SamplingOptions = {**outer._defaults, **defaults}
        else:
            self._place = Place(here().next_seed() if seed is None else seed)
            self._defaults = defaults
        self._span: Span | None = None
        self._run: object | None = None
        self._branches: list[Span] = []

    def __repr__(self) -> str:
        path = ".".join(map(str, self._place.path)) or "root"
        return f"<State {path}: ...{self.text_so_far[-40:]!r}>"

    @overload
    async def gen(
        self,
        /,
        *,
        regex: str | None = None,
        check: Callable[[str], Any] | None = None,
        retries: int = 2,
        **options: Unpack[GenOptions],
    ) -> str: ...
    @overload
    async def gen(
        self,
        /,
        *,
        choices: Sequence[C],
        check: Callable[[C], Any] | None = None,
        retries: int = 2,
        **options: Unpack[GenOptions],
    ) -> C: ...
    @overload
    async def gen(
        self,
        kind: type[T],
        /,
        *,
        check: Callable[[T], Any] | None = None,
        retries: int = 2,
        **options: Unpack[GenOptions],
    ) -> T: ...
    @overload
    async def gen(
        self,
        kind: Any,
        /,
        *,
        check: Callable[[Any], Any] | None = None,
        retries: int = 2,
        **options: Unpack[GenOptions],
    ) -> Any: ...
    async def gen(
        self,
        kind: Any = str,
        /,
        *,
        regex: str | None = None,
        choices: Sequence[str] | None = None,
        check: Callable[[Any], Any] | None = None,
        retries: int = 2,
        **options: Unpack[GenOptions],
    ) -> Any:
        """Generates text, a value of any type, a match of `regex`, or one of `choices`.

        A type or a JSON schema (a dict) is written as compact JSON, valid by construction, and
        `max_tokens` (512 unless given) never cuts it; a text that was cut says so in
        `s.result(name).completion.finish_reason`, and a warning tells of an object or a list that
        its limit made end. A field that the type's own validators refuse is
        asked for again, up to `repairs` times (3). `check` is a function, sync or async, of the
        value: by raising Retry or ValueError with a reason, or returning False, it has the model
        told why and asked again, up to `retries` times; only the accepted answer stays in the
        state.

        Raises InvalidRequest, SchemaError, AnswerRejected, BudgetExhausted, and what
        `Runtime.generate` raises.
        """
        check_hook("check", check, "the value")
        check_count("retries", retries)
        name, asking = self._asking(options)
        before = self._transcript
        answer = await answer_of(kind, self.runtime, regex=regex, choices=choices)
        result = await self._accepted(answer, asking.begun(), check, retries)
        self._keep(name, result, before)
        return result.value

    @overload
    def stream(
        self, /, *, regex: str | None = None, **options: Unpack[GenOptions]
    ) -> StateStream[str, str]: ...
    @overload
    def stream(
        self, kind: type[T], /, **options: Unpack[GenOptions]
    ) -> StateStream[T, Partial]: ...
    @overload
    def stream(self, kind: Any, /, **options: Unpack[GenOptions]) -> StateStream[Any, Partial]: ...
    def stream(
        self, kind: Any = str, /, *, regex: str | None = None, **options: Unpack[GenOptions]
    ) -> StateStream[Any, Any]:
        """As `gen`, in pieces that are shown as they come; see :class:`StateStream`."""
        name, asking = self._asking(options)
        growth: Growth[Any] = Growth(is_text=kind is str)
        return StateStream(growth, self._pieces(growth, kind, regex, name, asking))

    async def select(
        self, choices: Sequence[C], *, name: str | None = None, by: Normalisation = "token_length"
    ) -> C:
        """The choice that the model finds likeliest here; it becomes part of what was said.

        Scores of all choices are in `s.result(name).selection`. See `Runtime.select` for `by`.
        """
        if name is not None:
            check_name("name", name)
        given = cast("tuple[C, ...]", texts_of(choices))
        before = self._transcript
        with self._asked_from(before) as prompt:
            async with reserved(0, 0) as grant:
                found = await self.runtime.select(
                    prompt, given, by=by, timeout=grant.timeout, on_usage=self._tally.add
                )
        result = selected(found, given)
        self._keep(name, result, before)
        return result.value

    def fork(self, count: int) -> list[State]:
        """`count` states that go on from here, each its own way.

        What they share is computed once, also when all of them start in the same moment. Run them
        with `gather`, or use `each`.
        """
        places = self._place.branches(check_count("count", count))
        return [self._forked(place) for place in places]

    def copy(self) -> State:
        """One more state that goes on from here."""
        return self.fork(1)[0]

    async def each(
        self,
        branch: Callable[[State, Item], Awaitable[T]],
        items: Iterable[Item],
        *,
        limit: int | None = None,
    ) -> list[T]:
        """Runs `branch(fork, item)` for every item at once; the results, in order.

        The first exception cancels the others and is raised here.
        """
        given = list(items)

        async def run(state: State, item: Item) -> T:
            with state._span or nullcontext(), state._place.entered():
                return await branch(state, item)

        forks = self.fork(len(given))
        return await gather(*map(run, forks, given), limit=limit)

    @property
    def span(self) -> Span | None:
        """What this branch is recorded as, inside a program."""
        return self._span

    @contextmanager
    def running(self, span: Span, defaults: SamplingOptions) -> Generator[None]:
        """What is asked inside is recorded under `span` and has these `defaults`.

        Branches made inside end with it.
        """
        runs = _runs.get()
        if self._run is not None and self._run not in runs:
            raise InvalidRequest(
                "a program runs on this state already, at the same time; run the other on a copy() "
                "of it, or one after the other"
            )
        before = self._span, self._branches, self._defaults, self._place, self._run
        self._span, self._branches, self._run = span, [], object()
        self._defaults = {**self._defaults, **defaults}
        if "seed" in self._defaults:
            self._place = Place(self._defaults.pop("seed"), self._place.path)  # pyright: ignore
        token = _runs.set((*runs, self._run))
        try:
            with self._place.entered():
                yield
        finally:
            _runs.reset(token)
            for branch in self._branches:
                branch.end()
            self._span, self._branches, self._defaults, self._place, self._run = before

    def _asking(self, options: GenOptions) -> tuple[str | None, Asking]:
        """Raises InvalidRequest for options that make no sense."""
        name, params, how = read_options({**self._defaults, **options})
        if params.temperature > 0 and params.seed is None:
            params = params.model_copy(update={"seed": self._place.next_seed()})
        return name, Asking(params=params, count=self._tally.add, **how)

    async def _accepted(
        self, answer: Answer[T], asking: Asking, check: Callable[[T], Any] | None, retries: int
    ) -> Result[T]:
        """An answer that passes `check`, in at most `retries` more attempts than one."""
        attempts: list[Attempt] = []
        refused = 0
        transcript = self._transcript
        while True:
            with self._asked_from(transcript) as prompt:
                try:
                    result = await generated(self.runtime, prompt, answer, asking)
                except AnswerRejected as error:
                    raise error.after(attempts) from error.__cause__
            attempts += result.attempts
            reason = await objection(check, result.value)
            if reason is None:
                return replace(result, attempts=tuple(attempts))
            attempts.append(Attempt(result.text, "", reason))
            refused += 1
            if refused > retries:
                why = f"the limit of {retries} retries is reached"
                raise AnswerRejected(answer.wanted, attempts, why)
            transcript = transcript.going_on(result.text).objected(reason)

    async def _pieces(
        self,
        growth: Growth[Any],
        kind: Any,
        regex: str | None,
        name: str | None,
        asking: Asking,
    ) -> AsyncGenerator[Any]:
        asking = asking.begun()
        before = self._transcript
        answer = await answer_of(kind, self.runtime, regex=regex)
        with self._asked_from(before) as prompt:
            asking = asking.within(self.runtime, prompt, answer.grammar)
            async with granted(answer.grammar, asking) as (grant, call):
                running = self.runtime.stream(prompt, constraint=answer.grammar, **call)
                async with counted(grant, running, asking):
                    async for chunk in running:
                        piece = growth.add(chunk.text)
                        if piece is not None:
                            with grant.parked():
                                yield piece
            result = await mended(self.runtime, prompt, answer, asking, running.completion)
        self._keep(name, result, before)
        growth.result = result
        if result.attempts:
            growth.text = ""
            yield growth.add(result.text)

    @contextmanager
    def _asked_from(self, transcript: Transcript) -> Generator[list[int]]:
        """The prompt of a transcript; what is asked inside belongs to this branch."""
        with inside(self._span):
            try:
                yield transcript.tokens(self.runtime)
            except PromptTooLong as error:
                raise transcript.counted(error, self.runtime) from None

    def _forked(self, place: Place) -> State:
        state = State(self)
        state._place = place
        state._branches = self._branches
        if self._span is not None:
            name = f"branch {place.path[-1] + 1}"
            state._span = start_span(SpanKind.BRANCH, name, parent=self._span)
            self._branches.append(state._span)
        return state
