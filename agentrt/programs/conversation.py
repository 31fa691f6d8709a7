"""A conversation: what has been said, and the named generations that came of it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from agentrt.errors import InvalidRequest, NoSuchResult, UnsupportedModel
from agentrt.generation import Usage
from agentrt.programs.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from agentrt.messages import ToolCall
    from agentrt.programs.generating import Result
    from agentrt.runtime.runtime import Runtime


@dataclass(slots=True)
class Tally:
    """What a state and everything forked off it have used; adding goes up to the first state."""

    parent: Tally | None = None
    usage: Usage = field(default_factory=Usage)

    def add(self, usage: Usage) -> None:
        self.usage += usage
        if self.parent is not None:
            self.parent.add(usage)


class Conversation:
    """What one branch of a program has said and heard. `State` adds the calls that go on from it.

    `results` are the named generations, also those of the state that this one was forked from;
    `joined` what `join` collected: for each name, the results of several branches.
    """

    def __init__(self, runtime: Runtime, outer: Conversation | None = None) -> None:
        self.runtime = runtime
        self.results: dict[str, Result[Any]] = dict(outer.results) if outer else {}
        self.joined: dict[str, list[Result[Any]]] = dict(outer.joined) if outer else {}
        self._transcript = outer.transcript if outer else Transcript()
        self._start = self._transcript
        self._tally = Tally(outer._tally if outer else None)
        self._calls = outer._calls if outer else 0

    def system(self, content: str) -> None:
        """Adds a system message."""
        self._transcript = self._transcript.with_message("system", content)

    def user(self, content: str, *, images: Sequence[object] = ()) -> None:
        """Adds a user message. Raises UnsupportedModel for images: no model here takes them."""
        if images:
            raise UnsupportedModel(
                f"{self.runtime.model_name} takes no images and {len(images)} were given; "
                "say in the text what they show"
            )
        self._transcript = self._transcript.with_message("user", content)

    def assistant(self, content: str, **fields: Any) -> None:
        """Adds to the assistant's turn, opening one if none is open."""
        self._transcript = self._transcript.with_message("assistant", content, **fields)

    def tool(self, content: str, *, call_id: str | None = None, name: str | None = None) -> None:
        """Adds what a tool answered."""
        self._transcript = self._transcript.with_message(
            "tool", content, tool_call_id=call_id, name=name
        )

    def call(self, calls: Sequence[ToolCall]) -> None:
        """Ends the assistant's turn, or an empty one, with calls of tools."""
        self._transcript = self._transcript.calling(tuple(calls))

    def new_call_id(self) -> str:
        """An id for a call of a tool, the first of its kind here, also after a rewind.

        Counted, so that a program which runs again asks with the same prompts. Nine letters and
        digits: some templates refuse any other.
        """
        said = sum(len(message.tool_calls) for message in self._transcript.messages)
        self._calls = max(self._calls, said) + 1
        return f"call{self._calls:05d}"

    def rewind(self, transcript: Transcript) -> None:
        """Goes back to what had been said then; named generations are kept."""
        self._transcript = transcript

    @contextmanager
    def restored_on_error(self) -> Generator[None]:
        """Where the block fails, this is as it was before: what was said, and the named results."""
        before = self._transcript, dict(self.results), dict(self.joined)
        try:
            yield
        except BaseException:
            self._transcript, self.results, self.joined = before
            raise

    def text(self, text: str) -> None:
        """Adds to a plain prompt, with no roles and no template."""
        self._transcript = self._transcript.with_text(text)

    @property
    def transcript(self) -> Transcript:
        """Everything said, as an immutable value."""
        return self._transcript

    @property
    def text_so_far(self) -> str:
        """Everything said, without the template."""
        return self._transcript.said

    @property
    def text_since_fork(self) -> str:
        """What was said since this state was forked off (or began)."""
        return self._transcript.said_since(self._start)

    def join(self, branches: Sequence[Self]) -> list[str]:
        """Takes in the named generations of branches; returns the text that each of them added.

        `s[name]` is then the list of the branches' values. What the branches said is not said here:
        add what should be.
        """
        for branch in branches:
            for name, result in branch.results.items():
                if self.results.get(name) is not result:
                    self.joined[name] = [*self.joined.get(name, ()), result]
        return [branch.text_since_fork for branch in branches]

    def adopt(self, branch: Self) -> None:
        """Goes on as a branch did: all it said and its named generations become this state's."""
        self._transcript = branch.transcript
        self.results = dict(branch.results)
        self.joined = dict(branch.joined)
        self._calls = max(self._calls, branch._calls)

    def __getitem__(self, name: str) -> Any:
        """The value of a named generation, or the list of values that `join` collected."""
        if name in self.joined:
            return [result.value for result in self.joined[name]]
        return self.result(name).value

    def result(self, name: str) -> Result[Any]:
        """A named generation: value, text, log-probabilities, usage. Raises NoSuchResult."""
        try:
            return self.results[name]
        except KeyError:
            known = ", ".join(self.results) or "none"
            raise NoSuchResult(f"no generation is named {name!r}; there are: {known}") from None

    @property
    def usage(self) -> Usage:
        """Tokens of everything generated by this state and what was forked off it."""
        return self._tally.usage

    def _keep(self, name: str | None, result: Result[Any], before: Transcript) -> None:
        """What a generation wrote becomes part of what was said.

        Raises InvalidRequest where something else was said since it was asked for, at `before`.
        """
        if self._transcript is not before:
            raise InvalidRequest(
                "something was said in this state while it generated, so that its answer has no "
                "place to go; fork it for what happens at the same time"
            )
        self._transcript = before.going_on(result.text)
        if name is not None:
            self.results[name] = result
            self.joined.pop(name, None)
