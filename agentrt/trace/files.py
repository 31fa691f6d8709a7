"""The folder of recorded runs: which there are, which are still written, which have to go."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from agentrt.errors import InvalidRequest
from agentrt.trace.tables import APPLICATION_ID, connect

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = ".sqlite"
_BESIDE = ("-wal", "-shm", "-journal")
_APPLICATION_AT = 68
"""Where SQLite's file format keeps the application id, four bytes, big-endian (section 1.3)."""


def run_path(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}{SUFFIX}"


def run_files(folder: Path) -> list[Path]:
    """The files of runs, the newest first: their names begin with when the run began."""
    try:
        found = [path for path in folder.iterdir() if path.suffix == SUFFIX]
    except OSError:
        return []
    return sorted(found, key=lambda path: path.name, reverse=True)


def size_of(path: Path) -> int:
    """Bytes a run takes, its log included; 0 when it is gone."""
    total = 0
    for part in (path, *_beside(path)):
        with suppress(OSError):
            total += part.stat().st_size
    return total


def remove(path: Path) -> None:
    """Deletes a run. Raises OSError where that is not allowed."""
    path.unlink(missing_ok=True)
    for part in _beside(path):
        part.unlink(missing_ok=True)


def prune(folder: Path, limit_bytes: int) -> list[Path]:
    """Drops the oldest runs until the others fit; runs being written stay. Which were dropped."""
    files = [path for path in run_files(folder) if _is_record(path)]
    excess = sum(map(size_of, files)) - limit_bytes
    dropped: list[Path] = []
    for path in reversed(files):
        if excess <= 0:
            break
        if _is_written(path):
            continue
        size = size_of(path)
        with suppress(OSError):  # open elsewhere, on a system that minds
            remove(path)
            excess -= size
            dropped.append(path)
    return dropped


def is_writing(host: str, pid: int, process_started: float) -> bool:
    """Whether the process that a record names is there; on another machine nobody can tell."""
    if host != socket.gethostname():
        return False
    if pid == os.getpid():
        return True
    try:
        return abs(psutil.Process(pid).create_time() - process_started) < 1.0
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:  # not ours to ask about, so it is there
        return True


def _is_written(path: Path) -> bool:
    try:
        db = connect(path)
    except InvalidRequest:
        return False  # of another version, or damaged
    try:
        row = db.execute("SELECT ended_ns, host, pid, process_started FROM run").fetchone()
        return row is not None and row[0] is None and is_writing(*row[1:])
    except (InvalidRequest, TypeError, ValueError, OverflowError):
        return False  # damaged further on
    finally:
        db.close()


def _is_record(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(_APPLICATION_AT)
            return int.from_bytes(file.read(4), "big") == APPLICATION_ID
    except OSError:
        return False


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in _BESIDE]
