"""The `agentrt` command: finds what was asked for, runs it, and says in one line what went wrong.

Exit status: 0 it went well, 1 a run failed, 2 a mistake in what was asked for, 130 interrupted.
Only what the asked-for command needs is imported: `agentrt --help` is there at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS = {
    "run": ("agentrt.commands.run", "run a program of a Python file"),
    "extract": ("agentrt.commands.extract", "objects of a type out of texts, as JSON lines"),
    "chat": ("agentrt.commands.chat", "talk with a model"),
    "models": ("agentrt.commands.models", "the models that are stored: list, pull, info, path"),
    "schema": ("agentrt.commands.schema", "what a type compiles to, or why it is refused"),
    "info": ("agentrt.commands.info", "versions, device, kernels, folders, model"),
    "trace": ("agentrt.commands.trace", "what programs did: recorded runs"),
}
"""Module and help of each command. The module has `add_to(parser)`, which adds its arguments and
sets `run`: a function of the parsed arguments that returns the exit status (None for 0)."""


class _Command(argparse.ArgumentParser):
    """A command's parser, which gets its arguments when it is first wanted."""

    module: str | None = None

    def load(self) -> None:
        module, self.module = self.module, None
        if module is not None:
            importlib.import_module(module).add_to(self)
            self.add_argument(
                "--debug",
                action="store_true",
                default=argparse.SUPPRESS,
                help="where an error came from, in full",
            )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - overloads
        self.load()
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:  # refused here, where the usage is this command's own
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="agentrt", description="Agent programs and structured extraction on a local model."
    )
    top.add_argument("--version", action="store_true", help="print the version")
    top.add_argument("--debug", action="store_true", help="where an error came from, in full")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Command)
    is_completing = "_ARGCOMPLETE" in os.environ
    for name, (module, text) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        command.module = module
        if is_completing:
            command.load()
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    top = parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(top)
    is_debugging = "--debug" in (sys.argv[1:] if arguments is None else arguments)
    try:
        asked = top.parse_args(arguments)
        if asked.version:
            print(_version())
            return 0
        if asked.command is None:
            top.print_help()
            return 0
        is_debugging = asked.debug
        status = asked.run(asked) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read the output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as stop:
        print("; ".join(["agentrt: interrupted", *_notes(stop)]), file=sys.stderr)
        return 130
    except Exception as error:
        return _failed(error, is_debugging)


def _failed(error: Exception, is_debugging: bool) -> int:
    from agentrt.errors import UsageError

    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if is_debugging:
        traceback.print_exception(error)
    text = " ".join(str(error).split())
    notes = _notes(error)
    if (place := _place_of(error)) and not is_debugging:
        notes.append(f"{place}; --debug shows all of it")
    line = f"agentrt: {type(error).__name__}: {text}" + "".join(f" ({note})" for note in notes)
    print(line, file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", ()))


def _place_of(error: Exception) -> str | None:
    """The last line of a file of the user's that an error came through, if it came through any."""
    import sysconfig

    paths = sysconfig.get_paths()
    others = (
        os.path.dirname(__file__),
        *(paths[name] for name in ("stdlib", "purelib", "platlib")),
    )
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = frame.filename
        if os.path.isfile(path) and not path.startswith(tuple(f"{o}{os.sep}" for o in others)):
            return f"{os.path.relpath(path)}, line {frame.lineno}, in {frame.name}"
    return None


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"agentrt {version('agentrt')}"
    except PackageNotFoundError:
        return "agentrt, run from its source and not installed"


if __name__ == "__main__":
    sys.exit(main())
