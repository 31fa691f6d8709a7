"""`agentrt chat`: several turns with a model, answers shown as they are written."""

from __future__ import annotations

import contextlib
import reprlib
import sys
import time
from typing import TYPE_CHECKING

import anyio

from agentrt.commands.common import (
    add_json,
    add_model,
    add_sampling,
    in_words,
    print_json,
    sampling_of,
    say,
    usage_of,
)

if TYPE_CHECKING:
    import argparse

    from agentrt.errors import AgentrtError
    from agentrt.programs import State
    from agentrt.runtime.runtime import Runtime

HELP = "/reset begins anew, /usage tells tokens, /quit (or Ctrl-D) ends; Ctrl-C stops an answer"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", metavar="TEXT", help="the system message")
    add_model(parser)
    add_sampling(parser)
    add_json(parser, 'lines say {"answer", "usage"} or {"error"}')
    parser.epilog = (
        f"In the chat: {HELP}. Lines may also come from a pipe; what cannot be answered is said, "
        "and the exit status is then 1."
    )
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace) -> int:
    from agentrt.runtime.runtime import Runtime

    # Not inside an event loop: one would take Ctrl-C away from the line that is being typed.
    runtime = Runtime(asked.model).open()
    try:
        return Chat(runtime, asked).talk()
    finally:
        runtime.close()


class Chat:
    """The turns so far, and the loop that adds to them."""

    def __init__(self, runtime: Runtime, asked: argparse.Namespace) -> None:
        self._runtime = runtime
        self._asked = asked
        self._is_watched = sys.stdin.isatty() and not asked.json
        self._state = self._fresh()
        self._status = 0

    def talk(self) -> int:
        """Takes lines until there are no more; returns the exit status."""
        if self._is_watched:
            with contextlib.suppress(ImportError):  # line editing, where the system has it
                import readline  # noqa: F401  # pyright: ignore[reportUnusedImport]
            say(f"{self._runtime.model_name}. {HELP}")
        while (line := self._line()) is not None:
            match line.strip():
                case "":
                    continue
                case "/quit":
                    break
                case "/reset":
                    self._state = self._fresh()
                case "/usage":
                    say(in_words(self._state.usage, time.perf_counter() - self._began))
                case command if command.startswith("/"):
                    say(HELP)
                case _:
                    self._turn(line)
        return self._status

    def _fresh(self) -> State:
        from agentrt.programs import State

        self._began = time.perf_counter()
        state = State(self._runtime, **sampling_of(self._asked))
        if self._asked.system:
            state.system(self._asked.system)
        return state

    def _line(self) -> str | None:
        try:
            return input("> " if self._is_watched else "")
        except EOFError:
            return None

    def _turn(self, line: str) -> None:
        """One question and its answer; one that fails or is stopped was never asked."""
        from agentrt.errors import AgentrtError

        before, began = self._state.transcript, time.perf_counter()
        try:
            anyio.run(self._answer, line)
        except KeyboardInterrupt:
            self._state.rewind(before)
            if not self._is_watched:
                raise
            say("\n(stopped, and forgotten)")
        except AgentrtError as error:
            self._state.rewind(before)
            self._failed(line, error)
        else:
            if self._asked.json:
                answer = self._state.transcript.messages[-1].content
                fresh = self._state.result("answer").completion.usage
                print_json(
                    {"answer": answer, "usage": usage_of(fresh, time.perf_counter() - began)}
                )

    def _failed(self, line: str, error: AgentrtError) -> None:
        """Says why a line has no answer. Raises what the next one would have none for either."""
        from agentrt.errors import EngineClosed, EngineFailed

        why = f"{type(error).__name__}: {error}"
        if self._is_watched:
            say(why)
            return
        if isinstance(error, EngineClosed | EngineFailed):
            raise error
        self._status = 1
        say(f"agentrt: {reprlib.repr(line)}: {why}")
        if self._asked.json:
            print_json({"error": why})

    async def _answer(self, line: str) -> None:
        self._state.user(line)
        async with self._state.stream(name="answer") as stream:
            async for piece in stream:
                if not self._asked.json:
                    print(piece, end="", flush=True)
        if not self._asked.json:
            print(flush=True)
