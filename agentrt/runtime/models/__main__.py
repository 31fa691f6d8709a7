"""`python -m agentrt.runtime.models {list,pull,path}`: what is stored, and making it so."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from agentrt.errors import AgentrtError
from agentrt.runtime.models.sources import models_dir, pull, resolve
from agentrt.runtime.models.store import stored_bytes, stored_names

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status is 1 when a model cannot be had."""
    asked = _parser().parse_args(arguments)
    try:
        for line in _run(asked.command, getattr(asked, "model", None)):
            print(line)
    except AgentrtError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _run(command: str, model: str | None) -> Sequence[str]:
    if command == "pull":
        return [f"{(files := pull(model)).name} is ready in {files.folder}"]
    if command == "path":
        return [str(resolve(model).folder)]
    folder = models_dir()
    rows = [f"{stored_bytes(folder, name) / 1e6:8.1f} MB  {name}" for name in stored_names(folder)]
    return [*rows, f"{len(rows)} in {folder}"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agentrt.runtime.models")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the models that are stored, with the bytes they take")
    wanted = {
        "pull": "fetch and convert a model; check a stored one and mend what is damaged",
        "path": "print the folder of a model, preparing it first if need be",
    }
    for name, text in wanted.items():
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "model",
            nargs="?",
            help="a folder, a .gguf file or a hub id (default: the provided one)",
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
