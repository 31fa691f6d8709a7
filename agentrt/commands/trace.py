"""`agentrt trace`: looking at recorded runs, running them again, branching from them."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio

from agentrt.commands.common import add_json, add_model, add_sampling, print_json, sampling_of
from agentrt.errors import InvalidRequest
from agentrt.trace import attributes as names
from agentrt.trace import commands

if TYPE_CHECKING:
    import argparse

    from agentrt.trace import RecordedRun
    from agentrt.trace.replay import Branched, Replay


def add_to(parser: argparse.ArgumentParser) -> None:
    inner = commands.add_to(parser)
    text = "run a program again, answered from its record; exits with 1 on drift"
    again = inner.add_parser("replay", help=text, description=text)
    again.add_argument("id", metavar="RUN", help=commands.RUN)
    again.add_argument("program", nargs="*", metavar="FILE[:PROGRAM] [ARGUMENT]", help=_PROGRAM)
    again.add_argument(
        "--tools",
        choices=("recorded", "live"),
        default="recorded",
        help="whether tools are answered from the record or called (recorded)",
    )
    add_model(again)
    add_json(again, "the counts and the first drift as one JSON document")
    again.set_defaults(run=replay)

    text = "generate again with something changed"
    other = inner.add_parser("branch", help=text, description=text)
    other.add_argument("id", metavar="RUN", help=commands.RUN)
    other.add_argument("span", type=int, metavar="SPAN", help="a generation, by its number")
    other.add_argument("--append", metavar="TEXT", default="", help="go on from the prompt so")
    other.add_argument(
        "--prompt-replace", nargs=2, metavar=("OLD", "NEW"), help="change this in the prompt"
    )
    add_model(other)
    add_sampling(other)
    add_json(other, "both outputs as one JSON document")
    other.set_defaults(run=branch)


_PROGRAM = "what to run, with its arguments after --, if not what the record says was run"


def replay(asked: argparse.Namespace) -> int:
    """Says how far a program is as it was recorded."""
    with commands.opened(asked.id, asked.folder) as run:
        words = asked.program or _recorded_words(run)
    counts, drift = _replay(asked, words)
    if asked.json:
        print_json({"ok": drift is None, **counts, "drift": drift})
    elif drift is not None:
        print(f"drift: {drift}")
    else:
        done, tools = counts["answered"], counts["tools"]
        print(f"OK: {done} generations and {tools} tool calls were as recorded")
    return 0 if drift is None else 1


def branch(asked: argparse.Namespace) -> int:
    """Shows what was generated beside what comes of the change."""
    branched = anyio.run(_branch, asked)
    if asked.json:
        print_json(
            {
                "span": branched.span_id,
                "recorded": {"prompt": branched.recorded_prompt, "output": branched.recorded},
                "branch": {
                    "prompt": branched.prompt,
                    "output": branched.completion.text,
                    "finish_reason": branched.completion.finish_reason,
                    "usage": branched.completion.usage,
                },
                "unconstrained": branched.unconstrained,
            }
        )
        return 0
    _print_beside(branched)
    return 0


def _replay(asked: argparse.Namespace, words: list[str]) -> tuple[dict[str, int], str | None]:
    from agentrt.commands.run import run_again
    from agentrt.trace.replay import replaying

    # What the program prints is not what `--json` is asked for.
    aside = redirect_stdout(sys.stderr) if asked.json else nullcontext()
    where: Any = {"model": asked.model, "tools": asked.tools, "folder": asked.folder}
    with replaying(asked.id, **where) as replayed, aside:
        try:
            run_again(words)
        except (Exception, SystemExit) as error:
            # A drift may arrive as something else; and how a script ends is its own matter.
            if not replayed.drifts and not isinstance(error, SystemExit):
                raise
    counts = {
        "answered": replayed.answered,
        "tools": replayed.tools_answered,
        "unasked": len(replayed.unasked),
    }
    drift = str(replayed.drifts[0]) if replayed.drifts else _what_is_left(replayed)
    return counts, drift


def _what_is_left(runtime: Replay) -> str | None:
    left = runtime.unasked
    if not left:
        return None
    first = f"span {left[0].span_id} (in {left[0].place})"
    if len(left) == 1:
        return f"1 recorded generation was not asked for: {first}"
    return f"{len(left)} recorded generations were not asked for, the first is {first}"


def _recorded_words(run: RecordedRun) -> list[str]:
    """What was run when the run was recorded, as `agentrt run` is given it."""
    found = run.attributes(run.root().id).get(names.RUN_COMMAND)
    command = cast("list[str]", json.loads(found) if isinstance(found, str) else found or [])
    started = Path(command[0] if command else "")
    is_ours = started.name == "agentrt" or started.parent.name == "agentrt"
    if is_ours and command[1:2] == ["run"]:
        return command[2:]
    if is_ours or started.suffix != ".py" or started.name == "__main__.py":
        raise InvalidRequest(
            f"{run.path.stem} was started by `{' '.join(command) or 'unknown'}`, which is neither "
            "`agentrt run` nor a Python file; name what to run: "
            "agentrt trace replay RUN FILE[:PROGRAM]"
        )
    if not started.is_file():
        raise InvalidRequest(
            f"{run.path.stem} was started by `{' '.join(command)}`, and no such file is here; go "
            "to the folder it was started in, or name it: agentrt trace replay RUN FILE ARGUMENT..."
        )
    return command


async def _branch(asked: argparse.Namespace) -> Branched:
    from agentrt.runtime.runtime import Runtime
    from agentrt.trace.replay import branch as branch_from
    from agentrt.trace.replay.branching import recorded_prompt

    with commands.opened(asked.id, asked.folder) as run:
        recorded_prompt(run, asked.span)  # a mistake in it is told before a model is loaded
        async with Runtime(asked.model, trace=False) as runtime:
            return await branch_from(
                run,
                asked.span,
                runtime,
                append=asked.append,
                replace=asked.prompt_replace and tuple(asked.prompt_replace),
                **sampling_of(asked),
            )


def _print_beside(branched: Branched) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"span {branched.span_id}", expand=True)
    table.add_column("recorded", ratio=1)
    table.add_column("branch", ratio=1)
    if branched.prompt != branched.recorded_prompt:
        table.add_row(*map(_tail, (branched.recorded_prompt, branched.prompt)), end_section=True)
    table.add_row(Text(_safe(branched.recorded)), Text(_safe(branched.completion.text)))
    console = Console(highlight=False, emoji=False)
    console.print(table)
    usage = branched.completion.usage
    console.print(
        f"{usage.cached_tokens} of {usage.prompt_tokens} prompt tokens cached, "
        f"{usage.output_tokens} written",
        style="dim",
    )
    if branched.unconstrained is not None:
        console.print("The recorded output was constrained; that of the branch is not.")


def _tail(prompt: str) -> Any:
    from rich.text import Text

    shown = prompt if len(prompt) <= 600 else f"...{prompt[-600:]}"
    return Text(_safe(shown), style="dim")


def _safe(text: str) -> str:
    """Control characters cannot move the cursor."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
