"""What a map has finished, kept in an SQLite file: a second run goes on where a first was stopped.

Each result is committed as it comes, so a process that is killed loses none that was finished.
Results are JSON, read back by the program's return type: a file from a stranger can hold wrong
answers, but nothing that runs.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from agentrt.errors import InvalidRequest, StorageError
from agentrt.programs.identity import identity_of, results_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path
    from types import TracebackType

T = TypeVar("T")

_APPLICATION = 0x61675254  # SQLite's application_id: what kind of file it is
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_AGAIN_S = 0.02
PATIENCE_S = 5.0
"""Seconds to wait for a file that another process has locked."""
_TABLE = "CREATE TABLE IF NOT EXISTS finished (key BLOB PRIMARY KEY, result TEXT) WITHOUT ROWID"


class Ledger:
    """The finished inputs of one program.

    An input is known by the program's name and source, its options and what a `partial` binds, the
    model, the input's own JSON, and how many equal ones came before it. What the program calls or
    closes over, and the object that a method is of, are not looked at: begin a new file when those
    have changed. A set in an input has another order, and so another JSON, in every process: give
    lists. Raises InvalidRequest for a program without a return type, or whose results JSON cannot
    hold, and for a file that is something else.
    """

    def __init__(self, path: str | Path, program: Callable[..., Any]) -> None:
        self._path = path
        self._results = results_of(program)
        self._salt = identity_of(program)
        self._seen: Counter[bytes] = Counter()
        self._file: sqlite3.Connection | None = None

    async def __aenter__(self) -> Self:
        with self._errors():
            # Who waits for a lock waits here, where others run meanwhile, and not in SQLite.
            self._file = sqlite3.connect(self._path, isolation_level=None, timeout=0)
        try:
            await self._patiently(partial(self._prepare, self._file))
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def key(self, given: object) -> bytes:
        """The name of the next input; equal inputs get names of their own, in order."""
        try:
            value = json.loads(to_json(given))
        except (PydanticSerializationError, ValueError) as error:
            raise InvalidRequest(
                f"resume= knows inputs by their JSON, and a {type(given).__name__} has none "
                f"({error}); map over values that JSON can hold"
            ) from error
        described = [type(given).__qualname__, json.dumps(value, sort_keys=True)]
        digest = hashlib.blake2b(repr((self._salt, described)).encode(), digest_size=16).digest()
        self._seen[digest] += 1
        return digest + self._seen[digest].to_bytes(4, "big")

    async def find(self, key: bytes) -> tuple[Any] | None:
        """The result that is kept under this name, if there is one."""
        query = "SELECT result FROM finished WHERE key = ?"
        found = await self._patiently(lambda: self._opened.execute(query, (key,)).fetchone())
        try:
            return None if found is None else (self._results.validate_json(found[0]),)
        except ValidationError:
            return None  # of a return type that has changed since: it is done again

    async def keep(self, key: bytes, result: object) -> None:
        """Keeps a result, at once. Raises InvalidRequest for one that JSON would not give back."""
        row = (key, self._text(result))
        insert = "INSERT OR REPLACE INTO finished VALUES (?, ?)"
        await self._patiently(lambda: self._opened.execute(insert, row))

    def _text(self, result: object) -> str:
        try:
            text = self._results.dump_json(result, warnings="none").decode()
            if self._results.validate_json(text) == result:
                return text
            why = "it reads back as something else"
        except (PydanticSerializationError, ValidationError, ValueError) as error:
            why = str(error).replace("\n", " ")
        raise InvalidRequest(
            f"resume= keeps results as JSON of the program's return type, and this "
            f"{type(result).__name__} does not come back from it: {why}"
        )

    @property
    def _opened(self) -> sqlite3.Connection:
        assert self._file is not None
        return self._file

    def _prepare(self, file: sqlite3.Connection) -> None:
        (application,) = file.execute("PRAGMA application_id").fetchone()
        (tables,) = file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION:
            raise InvalidRequest(f"{self._path} is another program's database; name another file")
        # WAL with NORMAL: a killed process loses nothing, and a commit does not wait for the disk.
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = NORMAL")
        file.execute(f"PRAGMA application_id = {_APPLICATION}")
        file.execute(_TABLE)

    async def _patiently(self, call: Callable[[], T]) -> T:
        """Calls again, while another process has the file locked, for up to `PATIENCE_S`."""
        until = anyio.current_time() + PATIENCE_S
        with self._errors():
            while True:
                try:
                    return call()
                except sqlite3.OperationalError as error:
                    is_locked = error.sqlite_errorcode & 0xFF in _LOCKED
                    if not is_locked or anyio.current_time() > until:
                        raise
                await anyio.sleep(_AGAIN_S)

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StorageError(f"{self._path} cannot be written or read: {error}") from error
        except sqlite3.DatabaseError as error:
            raise InvalidRequest(f"{self._path} is no database to resume from: {error}") from error
