"""What a Python file defines and does, read without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_RUNNING = {"run", "main", "sync", "extract_sync", "run_sync"}
"""What a file calls that does its work by itself: `asyncio.run(...)`, `main()`, `ask.sync(...)`."""
_LOOPS = {"asyncio", "anyio", "trio", "uvloop"}
"""Whose `run` that is; the `run` of anything else, such as of subprocess, is not."""


@dataclass(frozen=True, slots=True)
class Outline:
    """`names` are those the file binds at its top, None where that cannot be told; `programs` those
    under a decorator. `runs_at`: the line at which it does its work on being imported too, if it
    does. `is_script`: it does it when it is started, and has an undecorated `main` or no program.
    """

    names: frozenset[str] | None
    programs: tuple[str, ...]
    runs_at: int | None
    is_script: bool


def outline_of(path: Path) -> Outline:
    """Reads a file. Raises InvalidRequest where there is none, or none that is Python."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except OSError as error:
        raise InvalidRequest(f"{path} is no file; give a Python file") from error
    except (SyntaxError, ValueError) as error:
        raise InvalidRequest(f"{path} is no Python file: {error}") from error
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    programs = tuple(f.name for f in functions if f.decorator_list)
    plain = {f.name for f in functions if not f.decorator_list}
    runs_at = next((s.lineno for s in tree.body if not _is_guard(s) and _runs(s)), None)
    has_guard = any(_is_guard(statement) for statement in tree.body)
    return Outline(
        names=_names(tree),
        programs=programs,
        runs_at=runs_at,
        is_script=runs_at is not None or (has_guard and ("main" in plain or not programs)),
    )


def _runs(node: ast.AST) -> bool:
    """Something in it does the file's work, apart from what is only defined there."""
    if isinstance(node, _DEFINITIONS):
        return False
    return _is_work(node) or any(_runs(child) for child in ast.iter_child_nodes(node))


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _is_work(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="run")):
            return owner in _LOOPS
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name in _RUNNING
        case _:
            return False


def _is_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )


def _names(tree: ast.Module) -> frozenset[str] | None:
    found = set(_bound(tree))
    return None if "*" in found else frozenset(found)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Every name that something in the file could bind, at its top or deeper."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
            case ast.Call(func=ast.Name(id="globals" | "exec" | "setattr")):
                yield "*"
            case _:
                continue
