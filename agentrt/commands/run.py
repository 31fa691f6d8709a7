"""`agentrt run`: a program of a Python file, its arguments taken from its signature."""

from __future__ import annotations

import argparse
import inspect
import runpy
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from agentrt.commands.common import (
    add_json,
    add_model,
    add_sampling,
    as_json,
    in_words,
    load_module,
    print_json,
    sampling_of,
    say,
    usage_of,
)
from agentrt.commands.outline import outline_of
from agentrt.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from agentrt.programs import Program

_COMMON = ("model", "json", "seed", "max_tokens", "temperature")


def add_to(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument(
        "file", metavar="FILE[:PROGRAM]", help="a Python file, or one program of it"
    )
    rest = parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="the program's own; FILE --help tells them",
    )
    rest.required = False  # Python 3.11 would name it among what lacks
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace) -> None:
    from agentrt.trace.session import started_as

    # Around the file being loaded as well: it may do its work then.
    with started_as(_split(asked.file)[0].stem, sys.argv):
        _run(asked)


def _run(asked: argparse.Namespace) -> None:
    from agentrt.programs import Program
    from agentrt.trace import recording

    target, path = _found(asked.file)
    if not isinstance(target, Program):
        _say_what_is_unused(path, asked)
        _run_main(target, path, asked.arguments)
        return
    prepared = _prepared(target, asked)
    with recording() as recorded:
        try:
            anyio.run(_run_program, *prepared, asked)
        except KeyboardInterrupt as stop:
            if recorded is not None:
                stop.add_note("`agentrt trace` shows how far it came")
            raise


def run_again(words: Sequence[str]) -> None:
    """Does what `agentrt run` with these words does, and says nothing of it.

    The file may open runtimes of its own, also when it is loaded.
    """
    from agentrt.programs import Program

    parser = argparse.ArgumentParser(prog="agentrt run")
    add_to(parser)
    asked = parser.parse_args(list(words))
    target, path = _found(asked.file)
    if isinstance(target, Program):
        anyio.run(_within_a_runtime, *_prepared(target, asked))
    else:
        _run_main(target, path, asked.arguments)


async def _within_a_runtime(found: Program[..., Any], given: dict[str, Any]) -> None:
    from agentrt.runtime.runtime import Runtime

    async with Runtime():
        await found(**given)


def _prepared(
    found: Program[..., Any], asked: argparse.Namespace
) -> tuple[Program[..., Any], dict[str, Any]]:
    """The program as the options want it to sample, and its arguments."""
    given = _parsed(found, asked)  # first: it may find options among the arguments
    return found.using(**sampling_of(asked)), given


def _found(file: str) -> tuple[Callable[..., Any], Path]:
    """What is to be run. A file that does its work by itself is started as Python would start it,
    once; a name that it does not have is refused before any of it runs."""
    path, name = _split(file)
    outline = outline_of(path)
    if name is not None and outline.names is not None and name not in outline.names:
        raise _no_such(path, name, outline.programs)
    if name is None and outline.is_script:
        return _script(path), path
    if outline.runs_at is not None:
        raise InvalidRequest(
            f"{path} does its work as soon as it is loaded (line {outline.runs_at}), and {name} "
            f'would come after that; put it under `if __name__ == "__main__":`, or run {path}'
        )
    return _target(load_module(path), path, name), path


def _say_what_is_unused(path: Path, asked: argparse.Namespace) -> None:
    """A file that opens its own runtime and prints by itself has no use for these options."""
    given = [name for name in _COMMON if getattr(asked, name) not in (None, False)]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        say(
            f"agentrt: {options} has no effect here: {path} opens its own runtime and prints by "
            f"itself; what stands after {path} goes to it"
        )


def _script(path: Path) -> Callable[..., Any]:
    def start() -> None:
        sys.path.insert(0, str(path.parent.resolve()))
        runpy.run_path(str(path), run_name="__main__")

    return start


def _no_such(path: Path, name: str | None, programs: Sequence[str]) -> InvalidRequest:
    wanted = f"{name!r}" if name else "`main` and no single program"
    if not programs:
        return InvalidRequest(
            f"{path} has no {wanted}; make an `async def f(s: State, ...)` of it one with @program"
        )
    known = ", ".join(programs)
    return InvalidRequest(
        f"{path} has no {wanted}; its programs: {known}; name one as {path}:PROGRAM"
    )


def _add_common(parser: argparse.ArgumentParser, without: tuple[str, ...] = (), **how: Any) -> None:
    """The options that stand before FILE, or among the program's own where it has none such."""
    part = argparse.ArgumentParser(add_help=False, **how)
    add_model(part)
    add_sampling(part)
    add_json(part, "the result and its usage as one JSON document")
    for action in part._actions:  # pyright: ignore[reportPrivateUsage]
        if action.dest not in without:
            parser._add_action(action)  # pyright: ignore[reportPrivateUsage]


def _split(given: str) -> tuple[Path, str | None]:
    where, colon, name = given.rpartition(":")
    return (Path(where), name) if colon and where.endswith(".py") else (Path(given), None)


def _target(module: ModuleType, path: Path, name: str | None) -> Callable[..., Any]:
    """What is to be run: the one that was named, `main`, or the only program."""
    from agentrt.programs import Program

    programs = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, Program) and value.__module__ == module.__name__
    }
    found = getattr(module, name or "main", None)
    if found is None and name is None and len(programs) == 1:
        (found,) = programs.values()
    if found is None:
        raise _no_such(path, name, tuple(programs))
    if not callable(found):
        raise InvalidRequest(f"{name} in {path} is a {type(found).__name__}, nothing to be run")
    return found


def _parsed(found: Program[..., Any], asked: argparse.Namespace) -> dict[str, Any]:
    """The program's arguments; common options among them are taken into `asked`."""
    from agentrt.commands.arguments import add_arguments

    parser = argparse.ArgumentParser(
        prog=f"agentrt run {asked.file}", description=inspect.getdoc(found)
    )
    names = add_arguments(parser, found)
    _add_common(parser, without=tuple(names), argument_default=argparse.SUPPRESS)
    given = vars(parser.parse_args(asked.arguments))
    for name in _COMMON:
        if name in given and name not in names:
            setattr(asked, name, given[name])
    return {name: given[name] for name in names}


async def _run_program(
    found: Program[..., Any], given: dict[str, Any], asked: argparse.Namespace
) -> None:
    from agentrt.runtime.runtime import Runtime

    async with Runtime(asked.model) as runtime:
        began = time.perf_counter()
        async with _live_view(asked):
            result = await found(**given)
        seconds = time.perf_counter() - began
        usage = runtime.stats().usage
    if asked.json:
        print_json({"result": result, "usage": usage_of(usage, seconds)})
        return
    if result is not None:
        print(result if isinstance(result, str) else as_json(result))
    say(in_words(usage, seconds))


def _run_main(target: Callable[..., Any], path: Path, arguments: list[str]) -> None:
    """A script's own `main`, as if the script had been started with these arguments."""
    if inspect.signature(target).parameters:
        raise InvalidRequest(
            f"main of {path} takes arguments and is no program; make it one with @program"
        )
    before, sys.argv = sys.argv, [str(path), *arguments]
    try:
        if inspect.iscoroutinefunction(target):
            anyio.run(target)
        else:
            target()
    finally:
        sys.argv = before


def _live_view(asked: argparse.Namespace) -> Any:
    """What the program does, shown as it happens, where there is a terminal."""
    if asked.json or not sys.stderr.isatty():
        return nullcontext()
    from agentrt.trace import live_view

    return live_view()
