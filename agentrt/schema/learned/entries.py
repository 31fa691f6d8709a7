"""A folder of arrays by key, of which nothing is ever missed: what cannot be read is not there,
and what cannot be written is not kept.

An entry is a zip of .npy members, read without pickle, each with a checksum. It is written aside
and renamed, so that nobody reads half of one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agentrt.cachefolder import cache_dir
from agentrt.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENDING, _ASIDE = ".npz", ".tmp"
_LARGEST = 64 << 20  # bytes of one entry, unpacked
_STALE_S = 3600.0  # a file aside that is older was left by a process that is gone


class Entries:
    """The entries in one folder under the cache folder, the least lately used removed beyond
    `most_bytes` on disk."""

    def __init__(self, name: str, most_bytes: int) -> None:
        self.name = name
        self.most_bytes = most_bytes

    def read(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays of an entry; None where there is none that can be read whole."""
        with contextlib.suppress(OSError, StorageError):
            path = self._folder() / f"{key}{_ENDING}"
            content = path.read_bytes()
            os.utime(path)
            return _unpacked(content)
        return None

    def write(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        with contextlib.suppress(OSError, StorageError):
            folder = self._folder()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_whole(folder / f"{key}{_ENDING}", arrays)
            self._make_room(folder)

    def _folder(self) -> Path:
        return cache_dir() / self.name

    def _make_room(self, folder: Path) -> None:
        found: list[tuple[float, int, Path]] = []
        for path in folder.iterdir():
            with contextlib.suppress(OSError):  # another process removed it
                stat = path.stat()
                if path.suffix == _ENDING:
                    found.append((stat.st_mtime, stat.st_size, path))
                elif path.suffix == _ASIDE and time.time() - stat.st_mtime > _STALE_S:
                    path.unlink()
        kept = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if kept <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            kept -= size


def _unpacked(content: bytes) -> dict[str, np.ndarray] | None:
    # Whatever is wrong with a file that anything may have damaged, its content can be made again.
    try:
        with zipfile.ZipFile(BytesIO(content)) as members:
            if sum(member.file_size for member in members.infolist()) > _LARGEST:
                return None
            return {
                name: np.load(BytesIO(members.read(name)), allow_pickle=False)
                for name in members.namelist()
            }
    except Exception:
        return None


def _write_whole(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=path.stem[:16], suffix=_ASIDE, delete=False
    ) as aside:
        try:
            with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as members:
                for name, array in arrays.items():
                    packed = BytesIO()
                    np.save(packed, array, allow_pickle=False)
                    members.writestr(name, packed.getvalue())
            aside.close()
            Path(aside.name).replace(path)
        except BaseException:
            aside.close()
            Path(aside.name).unlink(missing_ok=True)
            raise
