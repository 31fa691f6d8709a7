from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrt.cachefolder import cache_dir
from agentrt.errors import StorageError
from agentrt.runtime.models import store
from agentrt.runtime.models.store import damaged, derived, forget, is_whole, stored_names


class Builder:
    """Writes `files` and counts how often it was asked to."""

    def __init__(self, files: dict[str, bytes] | bytes = b"data") -> None:
        self.files = files
        self.calls = 0

    def __call__(self, path: Path) -> None:
        self.calls += 1
        if isinstance(self.files, bytes):
            path.write_bytes(self.files)
            return
        for name, content in self.files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)


FOLDER = {"config.json": b"{}", "deep/weights": b"0123456789"}


@pytest.mark.parametrize("files", [b"one file", FOLDER])
def test_built_once_and_then_found(tmp_path: Path, files: dict[str, bytes] | bytes) -> None:
    build = Builder(files)
    first = derived(tmp_path, "thing", build)
    assert derived(tmp_path, "thing", build) == first == tmp_path / "thing"
    assert build.calls == 1
    if isinstance(files, bytes):
        assert first.read_bytes() == files
    else:
        assert {name: (first / name).read_bytes() for name in files} == files
    assert stored_names(tmp_path) == ["thing"]
    assert damaged(tmp_path, "thing") == []


def cut(folder: Path) -> None:
    (folder / "thing/deep/weights").write_bytes(b"01234")


def lose(folder: Path) -> None:
    (folder / "thing/config.json").unlink()


def lose_all(folder: Path) -> None:
    shutil.rmtree(folder / "thing")


def die_before_manifest(folder: Path) -> None:
    store.manifest_path(folder, "thing").unlink()


def garble_manifest(folder: Path) -> None:
    store.manifest_path(folder, "thing").write_bytes(b'{"format": 1, "files": {"thing/')


def foreign_manifest(folder: Path) -> None:
    store.manifest_path(folder, "thing").write_text(json.dumps({"format": 0, "files": {}}))


def odd_manifest(folder: Path) -> None:
    store.manifest_path(folder, "thing").write_text(json.dumps([1, 2]))


@pytest.mark.parametrize(
    "harm",
    [cut, lose, lose_all, die_before_manifest, garble_manifest, foreign_manifest, odd_manifest],
)
def test_what_is_not_whole_is_made_again(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    build = Builder(FOLDER)
    derived(tmp_path, "thing", build)
    harm(tmp_path)
    assert not is_whole(tmp_path, "thing")
    derived(tmp_path, "thing", build)
    assert build.calls == 2
    assert damaged(tmp_path, "thing") == []


def test_a_changed_byte_shows_when_hashes_are_read(tmp_path: Path) -> None:
    build = Builder(FOLDER)
    derived(tmp_path, "thing", build)
    (tmp_path / "thing/deep/weights").write_bytes(b"0123456789"[::-1])
    assert is_whole(tmp_path, "thing")
    assert damaged(tmp_path, "thing") == ["thing/deep/weights"]
    forget(tmp_path, "thing")
    derived(tmp_path, "thing", build)
    assert damaged(tmp_path, "thing") == []
    assert damaged(tmp_path, "never made") == ["never made"]


@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt()])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def interrupted(path: Path) -> None:
        Builder(FOLDER)(path)
        raise error

    with pytest.raises(type(error)):
        derived(tmp_path, "thing", interrupted)
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == []
    derived(tmp_path, "thing", Builder(FOLDER))


def test_what_a_killed_builder_left_is_cleared_away(tmp_path: Path) -> None:
    Builder(FOLDER)(tmp_path / ".thing.partial")
    (tmp_path / ".thing.partial/stray").write_bytes(b"?")
    derived(tmp_path, "thing", Builder(FOLDER))
    assert not (tmp_path / "thing/stray").exists()
    assert not (tmp_path / ".thing.partial").exists()


def test_things_derived_into_a_folder_do_not_unsettle_it(tmp_path: Path) -> None:
    model = derived(tmp_path, "model", Builder(FOLDER))
    derived(model, "graph", Builder(b"graph"))
    assert is_whole(tmp_path, "model")
    assert is_whole(model, "graph")


def native(code: int) -> Exception:
    return RuntimeError(f"I/O error: No space (os error {code})")


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left"), native(errno.ENOSPC)], ids=["os", "native"]
)
def test_a_disk_that_fills_up_is_named_with_the_numbers(tmp_path: Path, error: Exception) -> None:
    def fills(path: Path) -> None:
        path.write_bytes(b"half")
        raise error

    with pytest.raises(StorageError) as caught:
        derived(tmp_path, "thing", fills, needed_bytes=3)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "about 3 bytes" in message
    assert "are free" in message
    assert "AGENTRT_CACHE_DIR" in message
    assert caught.value.errno == errno.ENOSPC
    assert not is_whole(tmp_path, "thing")


def test_too_little_room_is_said_before_anything_is_written(tmp_path: Path) -> None:
    build = Builder()
    with pytest.raises(StorageError, match=r"needs about 1,000,000,000,000,000,000 bytes"):
        derived(tmp_path, "thing", build, needed_bytes=10**18)
    assert build.calls == 0


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with pytest.raises(StorageError, match="cannot be written") as caught:
        derived(tmp_path, "thing", denied)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "no source"),
        PermissionError(errno.EACCES, "may not be read", "/elsewhere/model.safetensors"),
    ],
)
def test_errors_that_are_not_the_folders_come_through(tmp_path: Path, error: OSError) -> None:
    def wrong(path: Path) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        derived(tmp_path, "thing", wrong)
    assert caught.value is error


def test_the_second_waits_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    building, told = threading.Event(), threading.Event()
    said: list[str] = []

    def announce(text: str) -> None:
        said.append(text)
        told.set()

    def build(path: Path) -> None:
        building.set()
        assert told.wait(30)
        path.write_bytes(b"data")

    monkeypatch.setattr(store, "announce", announce)
    first = threading.Thread(target=derived, args=(tmp_path, "thing", build))
    first.start()
    assert building.wait(30)
    second = Builder()
    assert derived(tmp_path, "thing", second).read_bytes() == b"data"
    first.join()
    assert second.calls == 0
    assert len(said) == 1
    assert str(tmp_path / "thing") in said[0]


CHILD = """
import sys
from pathlib import Path
from agentrt.runtime.models.store import derived
folder = Path(sys.argv[1])
def build(path):
    with (folder / "log").open("a") as log:
        log.write("built\\n")
    path.mkdir()
    for n in range(50):
        (path / str(n)).write_bytes(b"x" * 1000)
print("ready", flush=True)
sys.stdin.readline()
made = derived(folder, "thing", build)
assert len(list(made.iterdir())) == 50
"""


def test_processes_that_start_together_build_once(tmp_path: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.communicate(timeout=60) and child.returncode for child in children] == [0] * 4
    assert (tmp_path / "log").read_text() == "built\n"
    assert damaged(tmp_path, "thing") == []


def test_the_cache_folder_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("AGENTRT_CACHE_DIR", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"
    monkeypatch.delenv("AGENTRT_CACHE_DIR")
    assert cache_dir() == tmp_path / "xdg/agentrt"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir().name == "agentrt"


@pytest.mark.parametrize("below", ["a file", "a device"])
def test_a_cache_that_no_folder_can_be_made_in_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    folder = (tmp_path / "file" if below == "a file" else Path(os.devnull)) / "models"
    with pytest.raises(StorageError, match="AGENTRT_CACHE_DIR"):
        derived(folder, "thing", lambda path: None)


@pytest.mark.parametrize("name", ["x" * 5000, "~nobody-of-that-name/cache"])
def test_a_cache_of_an_impossible_name_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTRT_CACHE_DIR", str(tmp_path / name) if name[0] == "x" else name)
    with pytest.raises(StorageError, match="is no cache folder"):
        cache_dir()
