"""Files that are made once from others: built aside, published whole, checked at every start.

Beside a made file or folder NAME lies NAME.manifest.json with the size and SHA-256 of each file. It
is written last, so its presence means the making ended; sizes are compared at every start, hashes
only by `damaged`, since reading a model takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict, cast

from filelock import FileLock, Timeout

from agentrt.runtime.models.progress import announce
from agentrt.runtime.models.storage import make_folder, require_space, storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

FORMAT = 1
MANIFEST = ".manifest.json"


class FileFacts(TypedDict):
    size: int
    sha256: str


def derived(
    folder: Path,
    name: str,
    build: Callable[[Path], None],
    *,
    needed_bytes: int | None = None,
) -> Path:
    """The file or folder `folder/name`, made by `build` if it is not there whole.

    `build(path)` writes a file or a folder at the path it is given. However many processes ask at
    once, one builds and the others wait for it; a build that was interrupted leaves nothing that
    counts. `needed_bytes` is what it will write, if known. Raises StorageError on a full disk or a
    missing permission, and whatever `build` raises.
    """
    final = folder / name
    if is_whole(folder, name):
        return final
    with storage_errors(folder, needed_bytes):
        make_folder(folder)
        with _locked(folder, name):
            if not is_whole(folder, name):
                _rebuild(folder, name, build, needed_bytes)
    return final


def is_whole(folder: Path, name: str) -> bool:
    """`name` was published and every file of it still has the size it had then."""
    manifest = _read_manifest(folder, name)
    if not manifest:
        return False
    try:
        return all(
            (folder / file).stat().st_size == facts["size"] for file, facts in manifest.items()
        )
    except OSError:
        return False


def damaged(folder: Path, name: str) -> list[str]:
    """The files of `name` whose SHA-256 is no longer the one they were published with."""
    manifest = _read_manifest(folder, name)
    if not manifest:
        return [name]
    return [file for file, facts in manifest.items() if not _matches(folder / file, facts)]


def forget(folder: Path, name: str) -> None:
    """Removes `name` and its manifest, so that the next `derived` makes it anew."""
    with storage_errors(folder), _locked(folder, name):
        _discard(folder, name)


def stored_bytes(folder: Path, name: str) -> int:
    """Total size of what lies in the folder of `name`: as published, and what was derived since."""
    return sum(path.stat().st_size for path in (folder / name).rglob("*") if path.is_file())


def stored_names(folder: Path) -> list[str]:
    """Names of everything whole in `folder`."""
    names = (path.name.removesuffix(MANIFEST) for path in sorted(folder.glob(f"*{MANIFEST}")))
    return [name for name in names if is_whole(folder, name)]


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest_path(folder: Path, name: str) -> Path:
    return folder / f"{name}{MANIFEST}"


def _rebuild(
    folder: Path, name: str, build: Callable[[Path], None], needed_bytes: int | None
) -> None:
    # One fixed name for the unfinished thing: the lock admits one builder, and what a killed one
    # left is found and removed here instead of piling up.
    partial = folder / f".{name}.partial"
    _remove(partial)
    if needed_bytes is not None:
        require_space(folder, needed_bytes)
    try:
        build(partial)
        _publish(folder, name, partial)
    finally:
        _remove(partial)


def _publish(folder: Path, name: str, partial: Path) -> None:
    files = sorted(p for p in partial.rglob("*") if p.is_file()) if partial.is_dir() else [partial]
    manifest: dict[str, FileFacts] = {}
    for file in files:
        _flush(file)
        key = (folder / name / file.relative_to(partial)).relative_to(folder).as_posix()
        manifest[key] = {"size": file.stat().st_size, "sha256": sha256_of(file)}
    _discard(folder, name)
    partial.rename(folder / name)
    _write_manifest(folder, name, manifest)


def _write_manifest(folder: Path, name: str, files: dict[str, FileFacts]) -> None:
    path = manifest_path(folder, name)
    aside = path.with_suffix(".tmp")
    aside.write_text(json.dumps({"format": FORMAT, "files": files}, indent=1))
    _flush(aside)
    aside.replace(path)


def _read_manifest(folder: Path, name: str) -> dict[str, FileFacts] | None:
    try:
        content = json.loads(manifest_path(folder, name).read_bytes())
        if content["format"] != FORMAT:
            return None
        return {
            str(file): FileFacts(size=int(facts["size"]), sha256=str(facts["sha256"]))
            for file, facts in cast("dict[str, FileFacts]", content["files"]).items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _matches(path: Path, facts: FileFacts) -> bool:
    try:
        return path.stat().st_size == facts["size"] and sha256_of(path) == facts["sha256"]
    except OSError:
        return False


def _flush(path: Path) -> None:
    """Forces the file to the disk: a size that survives a power cut must mean its content did."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _discard(folder: Path, name: str) -> None:
    manifest_path(folder, name).unlink(missing_ok=True)
    _remove(folder / name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path, name: str) -> Generator[None]:
    lock = FileLock(folder / f".{name}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        announce(f"another process is preparing {folder / name}; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
