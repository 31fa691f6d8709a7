"""The library is built once, found again, and rebuilt when it is damaged."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentrt.errors import NativeUnavailable, StorageError
from agentrt.runtime.native import build

TINY = "int agentrt_answer(void) { return 42; }\n"


@pytest.fixture(autouse=True)
def tiny_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One function instead of the kernels: this file tests building, not what is built."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "answer.c").write_text(TINY)
    monkeypatch.setattr(build, "_HERE", folder)
    if not list(build._compilers()):
        pytest.skip("no C compiler")
    return folder


def libraries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.so"))


def test_the_second_start_runs_no_compiler(tmp_path: Path, monkeypatch) -> None:
    cache = tmp_path / "cache"
    assert build.load_library(cache).agentrt_answer() == 42

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert build.load_library(cache).agentrt_answer() == 42
    assert [path.suffix for path in cache.iterdir()] == [".so"]


def test_changed_sources_are_built_anew(tmp_path: Path, tiny_sources: Path) -> None:
    build.load_library(tmp_path / "cache")
    (tiny_sources / "answer.c").write_text(TINY.replace("42", "43"))
    assert build.load_library(tmp_path / "cache").agentrt_answer() == 43


@pytest.mark.parametrize("damage", [b"", b"not a library"])
def test_a_damaged_library_is_rebuilt(tmp_path: Path, damage: bytes) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    compilers = list(build._compilers())
    path = build._build(cache, build._source_key(()), compilers, ())
    path.write_bytes(damage)
    assert build.load_library(cache).agentrt_answer() == 42


def test_without_a_compiler_an_earlier_library_serves(tmp_path: Path, monkeypatch) -> None:
    build.load_library(tmp_path / "cache")
    monkeypatch.setattr(build, "_compilers", lambda: iter(()))
    assert build.load_library(tmp_path / "cache").agentrt_answer() == 42


def test_no_compiler_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NativeUnavailable, match=r"no C compiler was found.*install gcc") as caught:
        build.load_library(tmp_path / "cache")
    assert "pip install ziglang" in caught.value.advice


def test_what_the_compiler_said_is_in_the_error(tmp_path: Path, tiny_sources: Path) -> None:
    (tiny_sources / "answer.c").write_text("#error these sources are wrong\n")
    with pytest.raises(NativeUnavailable, match="these sources are wrong"):
        build.load_library(tmp_path / "cache")
    assert not libraries(tmp_path / "cache")


def test_a_broken_compiler_gives_way_to_the_next(tmp_path: Path, monkeypatch) -> None:
    broken = shutil.which("false")
    assert broken is not None
    monkeypatch.setenv("CC", broken)
    assert build.load_library(tmp_path / "cache").agentrt_answer() == 42


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        build.load_library(tmp_path / "file" / "cache")


def _answer(folder: str, sources: str, barrier, answers) -> None:
    build._HERE = Path(sources)
    barrier.wait()
    answers.put(build.load_library(Path(folder)).agentrt_answer())


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_two_processes_may_build_at_once(tmp_path: Path, tiny_sources: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(2), context.Queue()
    arguments = (str(tmp_path / "cache"), str(tiny_sources), barrier, answers)
    processes = [context.Process(target=_answer, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    assert [answers.get(timeout=60) for _ in processes] == [42, 42]
    for process in processes:
        process.join()
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".so"}
