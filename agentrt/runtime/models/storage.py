"""Writing where models are kept, and what is said when that place cannot be written."""

from __future__ import annotations

import errno
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.cachefolder import ELSEWHERE
from agentrt.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Generator

FULL = {errno.ENOSPC, errno.EDQUOT}
DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def make_folder(folder: Path) -> None:
    """Creates a folder of the cache, and those above it. Raises StorageError if it cannot be."""
    with storage_errors(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno in FULL:
                raise
            raise StorageError(
                error.errno, f"{folder} cannot be written ({error}); {ELSEWHERE}", str(folder)
            ) from error


@contextmanager
def storage_errors(folder: Path, needed_bytes: int | None = None) -> Generator[None]:
    """Turns a full disk or a missing permission inside the block into a StorageError.

    Libraries that write from native code report the errno inside their message only. What the block
    may not read elsewhere is no error of this folder and passes through.
    """
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        code = _errno(error)
        if code in FULL:
            raise disk_full(folder, needed_bytes) from error
        if code in DENIED and _is_about(error, folder):
            raise StorageError(
                code, f"{folder} cannot be written ({error}); {ELSEWHERE}", str(folder)
            ) from error
        raise


def require_space(folder: Path, needed_bytes: int) -> None:
    """Raises StorageError at once when the disk under `folder` has fewer free bytes than needed."""
    if free_bytes(folder) < needed_bytes:
        raise disk_full(folder, needed_bytes)


def disk_full(folder: Path, needed_bytes: int | None) -> StorageError:
    """The error of a full disk, with the folder and the numbers in its message."""
    needed = "an unknown number of" if needed_bytes is None else f"about {needed_bytes:,}"
    free = free_bytes(folder)
    return StorageError(
        errno.ENOSPC,
        f"the disk is full: {folder} needs {needed} bytes and {free:,} are free; "
        f"make room, or {ELSEWHERE}",
        str(folder),
    )


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk that holds `folder`, which need not exist yet."""
    existing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    return shutil.disk_usage(existing).free


def _errno(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    told = re.search(r"os error (\d+)", str(error))
    return int(told[1]) if told else None


def _is_about(error: BaseException, folder: Path) -> bool:
    path = error.filename if isinstance(error, OSError) else None
    return path is None or Path(path).absolute().is_relative_to(folder.absolute())
