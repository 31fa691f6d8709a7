"""`agentrt extract`: the object that each text tells of, one JSON line a file."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from agentrt.commands.common import (
    add_json,
    add_model,
    add_sampling,
    as_json,
    load_type,
    output_to,
    sampling_of,
    say,
)
from agentrt.errors import InvalidRequest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from typing import TextIO


class Page(NamedTuple):
    """A text and where it is from."""

    name: str
    text: str


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="texts or HTML pages; - is standard input"
    )
    parser.add_argument(
        "--type",
        required=True,
        metavar="TYPE",
        help="module:Class, file.py:Class, or a JSON schema (a file or the schema itself)",
    )
    parser.add_argument(
        "--verbatim",
        action="store_true",
        help="copy texts, numbers and dates from the file, write nothing else",
    )
    parser.add_argument("--instructions", help="what else the model should know")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there, whole or not at all"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="files worked on at the same time")
    parser.add_argument("--retries", type=int, default=0, metavar="N", help="of a file that failed")
    parser.add_argument(
        "--resume", metavar="DB", help="remember finished files there, and do not repeat them"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add_model(parser)
    add_sampling(parser)
    add_json(parser, 'lines say {"file", "result"} or {"file", "error"}, not the object alone')
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace) -> int:
    from agentrt.trace import recording

    kind = load_type(asked.type)
    _check_type(kind)
    if isinstance(kind, dict) and kind.get("properties") and not kind.get("required"):
        say(
            'agentrt: the schema names no "required" properties, so that objects may leave all of '
            'them out; name them there, and set "additionalProperties" to false to have no others'
        )
    for name in asked.files:
        _check(name)
    written: list[str] = []
    with output_to(asked.output) as out, recording(name=f"extract {_name(asked.type)}"):
        try:
            return anyio.run(_extract_all, kind, asked, out, written)
        except KeyboardInterrupt as stop:
            stop.add_note(_so_far(asked, len(written)))
            raise


def _check_type(kind: Any) -> None:
    """Raises SchemaError for a type that is refused: a mistake, and not a failure of every file.

    What is copied from the files is known with them alone, and looked at then.
    """
    from agentrt.programs.extract import is_marked
    from agentrt.schema import compile_schema

    if not is_marked(kind):
        compile_schema(kind)


def _so_far(asked: argparse.Namespace, written: int) -> str:
    """What there is of a run that was interrupted."""
    done = f"{written} of {len(asked.files)} files were done"
    if asked.output is not None:
        done += f", {asked.output} was not written"
    if asked.resume is not None:
        return f"{done}, {asked.resume} has what was finished: the same command goes on from there"
    return f"{done}; with --resume DB the same command could go on"


def _name(given: str) -> str:
    """What a type is called: the class, or the file of the schema."""
    return "schema" if given.lstrip().startswith("{") else Path(given.rpartition(":")[2]).stem


async def _extract_all(
    kind: Any, asked: argparse.Namespace, out: TextIO, written: list[str]
) -> int:
    from agentrt.programs import Failed, map_as_completed
    from agentrt.runtime.runtime import Runtime

    settings = json.dumps(
        [_schema(kind), asked.instructions, asked.verbatim, sampling_of(asked), asked.model]
    )
    work = functools.partial(_work(kind, asked), settings)
    failures = 0
    waiting: dict[int, tuple[str, Any]] = {}
    following = 0
    async with (
        Runtime(asked.model),
        map_as_completed(
            work,
            _pages(asked.files),
            limit=asked.limit,
            progress=not asked.quiet,
            resume=asked.resume,
            retries=asked.retries,
            on_error="collect",
        ) as results,
    ):
        async for index, page, result in results:
            waiting[index] = (page.name, result)
            while following in waiting:  # lines come in the order of the files
                name, found = waiting.pop(following)
                following += 1
                failures += isinstance(found, Failed)
                _write(out, name, found, asked.json)
                written.append(name)
    return 1 if failures else 0


def _write(out: TextIO, name: str, found: Any, with_name: bool) -> None:
    from agentrt.programs import Failed

    if isinstance(found, Failed):
        error = f"{type(found.error).__name__}: {found.error}"
        say(f"agentrt: {name}: {error}")
        if with_name:
            print(as_json({"file": name, "error": error}), file=out, flush=True)
    else:
        line = {"file": name, "result": found} if with_name else found
        print(as_json(line), file=out, flush=True)


def _work(kind: Any, asked: argparse.Namespace) -> Callable[[str, Page], Awaitable[Any]]:
    from agentrt.programs import extract

    async def extracted(settings: str, page: Page) -> Any:
        del settings  # named so that what is remembered is of the same type and options
        return await extract(
            kind,
            page.text,
            instructions=asked.instructions,
            verbatim=asked.verbatim,
            **sampling_of(asked),
        )

    extracted.__annotations__["return"] = Any if isinstance(kind, dict) else kind
    return extracted


def _schema(kind: Any) -> Any:
    from agentrt.schema import schema_of

    return kind if isinstance(kind, dict) else schema_of(kind)


def _check(name: str) -> None:
    """Raises InvalidRequest for a file that cannot be read, before anything is begun."""
    if name != "-":
        _read(name)


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{name} is no UTF-8 text: {error}") from error


def _pages(files: Sequence[str]) -> Iterator[Page]:
    from agentrt.html import text_of_page

    for name in files:
        yield Page(name, text_of_page(_read(name), name))
