"""What several commands share: options, files that are read and written, types by name."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from agentrt.errors import InvalidRequest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator
    from types import ModuleType

    from agentrt.generation import SamplingOptions, Usage


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds `--model`."""
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file (the provided one)")


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Adds the options of how text is sampled."""
    parser.add_argument("--seed", type=int, help="for sampling that can be repeated")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="most tokens of an answer")
    parser.add_argument("--temperature", type=float, metavar="T", help="0 is the likeliest token")


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds `--json`."""
    parser.add_argument("--json", action="store_true", help=what)


def sampling_of(asked: argparse.Namespace) -> SamplingOptions:
    """The sampling options that were given."""
    names = ("seed", "max_tokens", "temperature")
    given: Any = {name: value for name in names if (value := getattr(asked, name)) is not None}
    return given


def usage_of(usage: Usage, seconds: float) -> dict[str, Any]:
    """Token counts and seconds, for machines."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "computed_tokens": usage.computed_tokens,
        "sampled_tokens": usage.sampled_tokens,
        "forced_tokens": usage.forced_tokens,
        "seconds": round(seconds, 3),
    }


def in_words(usage: Usage, seconds: float) -> str:
    """Token counts and seconds, for people."""
    return (
        f"{usage.prompt_tokens} prompt tokens ({usage.cached_tokens} cached, "
        f"{usage.computed_tokens} computed), {usage.output_tokens} written "
        f"({usage.sampled_tokens} sampled, {usage.forced_tokens} forced), {seconds:.1f} s"
    )


def as_json(value: object) -> str:
    """Any value as one line of JSON."""
    from pydantic_core import to_json

    return to_json(value, fallback=repr).decode()


def print_json(value: object) -> None:
    """One JSON document on a line of stdout."""
    print(as_json(value), flush=True)


def say(text: str) -> None:
    """A line for the person at the terminal, beside the output."""
    print(text, file=sys.stderr, flush=True)


def load_module(path: Path) -> ModuleType:
    """A Python file as a module; what stands beside it can be imported. Raises InvalidRequest."""
    if not path.is_file():
        raise InvalidRequest(f"{path} is no file; give a Python file")
    name = path.stem.replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidRequest(f"{path} is no Python file; its name must end in .py")
    sys.path.insert(0, str(path.parent.resolve()))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_type(given: str) -> Any:
    """The type that `module:Class`, `path.py:Class`, a plain name such as `int`, a schema file or a
    JSON schema itself names.

    Schemas come as dicts. Raises InvalidRequest where there is none.
    """
    if given.lstrip().startswith("{"):
        return _schema(given, "the schema")
    where, colon, name = given.rpartition(":")
    if not colon or Path(given).suffix == ".json":
        if isinstance(plain := getattr(builtins, given, None), type):
            return plain
        path = Path(given)
        if not path.is_file():
            lack = f"there is no file {given}" if path.suffix else f"{given!r} names no type"
            raise InvalidRequest(
                f"{lack}; give module:Class, file.py:Class, a plain type such as int, or a JSON "
                "schema file"
            )
        return _schema(path.read_text(encoding="utf-8"), given)
    module = load_module(Path(where)) if where.endswith(".py") else _imported(where)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise InvalidRequest(f"{where} has no {name!r}; its classes: {_classes_of(module)}")
    return found


def _classes_of(module: ModuleType) -> str:
    named = (
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    )
    return ", ".join(named) or "none"


def _schema(text: str, where: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"{where} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidRequest(f"{where} is no JSON schema; an object is wanted")
    return found


def _imported(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            # as for a file: what stands beside it can be imported, if nothing else has its name
            sys.path.append(str(Path(spec.origin).parent))
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise InvalidRequest(
            f"there is no module {name!r} here; give its full name, or file.py:Class"
        ) from error


@contextmanager
def output_to(path: Path | None) -> Generator[TextIO]:
    """Where output goes: stdout, or a file that is there when all of it is, and not before."""
    if path is None:
        yield sys.stdout
        return
    if path.is_dir():
        raise InvalidRequest(f"{path} is a folder; name the file in it that is to be written")
    try:
        handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
