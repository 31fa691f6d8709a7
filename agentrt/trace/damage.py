"""Records that are damaged: whatever reading one raises is told as InvalidRequest.

The pages of a file can be wrong, which SQLite says while rows are fetched, and so can what is in
rows that it finds nothing wrong with: JSON, deflated bytes, the name of a status.
"""

from __future__ import annotations

import inspect
import sqlite3
import struct
import zlib
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from agentrt.errors import AgentrtError, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

P = ParamSpec("P")
T = TypeVar("T")

_DAMAGE = (
    zlib.error,
    struct.error,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    OverflowError,
    RecursionError,
)


def unreadable(path: Path, error: object) -> InvalidRequest:
    """The error of a file that is not, or no longer, the record of a run."""
    return InvalidRequest(f"{path} cannot be read as the record of a run: {error}")


def reads(method: Callable[P, T]) -> Callable[P, T]:
    """A method, or a generator, that reads rows of the record at the `path` of its object: what it
    stumbles over in them is told as InvalidRequest."""
    if inspect.isgeneratorfunction(method):

        @wraps(method)
        def drawn(*args: P.args, **kwargs: P.kwargs) -> Any:
            with _told(args):
                yield from method(*args, **kwargs)

        return cast("Callable[P, T]", drawn)

    @wraps(method)
    def read(*args: P.args, **kwargs: P.kwargs) -> T:
        with _told(args):
            return method(*args, **kwargs)

    return read


@contextmanager
def _told(args: tuple[Any, ...]) -> Generator[None]:
    try:
        yield
    except AgentrtError:
        raise
    except _DAMAGE as error:
        raise unreadable(args[0].path, f"{type(error).__name__}: {error}") from error


class RecordConnection(sqlite3.Connection):
    """A record as SQLite reads it; `path` is its file."""

    path: Path

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return self.cursor(_Cursor).execute(sql, parameters)


class _Cursor(sqlite3.Cursor):
    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return self._fetched(super().execute, sql, parameters)

    def fetchone(self) -> Any:
        return self._fetched(super().fetchone)

    def fetchall(self) -> list[Any]:
        return self._fetched(super().fetchall)

    def __next__(self) -> Any:
        return self._fetched(super().__next__)

    def _fetched(self, fetch: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return fetch(*args, **kwargs)
        except sqlite3.ProgrammingError:  # closed, or used wrongly: not the file's fault
            raise
        except sqlite3.DatabaseError as error:
            raise unreadable(cast("RecordConnection", self.connection).path, error) from error
