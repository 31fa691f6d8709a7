"""Automata kept on disk: read by the next process, and never missed where they cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentrt.schema.disk import Entries
from agentrt.schema.regex import stored as room
from agentrt.schema.regex.determinise import determinise
from agentrt.schema.regex.dfa import Dfa
from agentrt.schema.regex.parse import parse
from agentrt.schema.regex.stored import stored

PATTERN = r"(?:[a-z\u00e9]+-){2}(?=..)\d{1,3}[^\u20ac]"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(room, "_WORTH_S", -1.0)
    return tmp_path / "automata"


class Maker:
    """Makes the automaton, and counts how often."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> Dfa:
        self.made += 1
        return determinise(parse(PATTERN, dialect="ecma"))


def entry(folder: Path) -> Path:
    (found,) = folder.glob("*.npz")
    return found


def test_what_was_made_is_read_and_is_equal() -> None:
    make = Maker()
    first, again = stored(PATTERN, make), stored(PATTERN, make)
    assert make.made == 1
    assert first == again
    assert first is not again
    assert again.matches("a-\u00e9-1x")
    assert not again.matches("a-\u00e9-1\u20ac")
    stored("another use of it", make)
    assert make.made == 2


def test_what_is_quickly_made_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_WORTH_S", 3600.0)
    stored(PATTERN, Maker())
    assert not folder.exists()


def test_other_code_or_another_format_reads_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    stored(PATTERN, make)
    monkeypatch.setattr(room, "FORMAT", 0)
    room._code.cache_clear()
    stored(PATTERN, make)
    assert make.made == 2
    room._code.cache_clear()


def _of(**arrays: Any) -> bytes:
    out = BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _changed(**changes: Any) -> Any:
    """The entry with some of its arrays replaced: a whole file that describes no automaton."""

    def change(content: bytes) -> bytes:
        with np.load(BytesIO(content), allow_pickle=False) as found:
            arrays = {name.removesuffix(".npy"): found[name] for name in found.files}
        out = BytesIO()
        with zipfile.ZipFile(out, "w") as members:
            for name, array in (arrays | changes).items():
                packed = BytesIO()
                np.save(packed, array)
                members.writestr(name, packed.getvalue())
        return out.getvalue()

    return change


def _flipped(content: bytes) -> bytes:
    at = len(content) // 3
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


def _bomb(_: bytes) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("rows", bytes(65 << 20))
    return out.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[: len(content) // 2],
        _flipped,
        _bomb,
        lambda _: _of(rows=np.array([print], dtype=object)),
        _changed(rows=np.zeros((0, 0), np.int64)),
        _changed(rows=np.full((2, 3), 7)),
        _changed(rows=np.zeros((2, 3), np.float64)),
        _changed(starts=np.array([0, 0])),
        _changed(accepting=np.array([-1])),
        _changed(extra=np.array([1])),
    ],
)
def test_a_damaged_entry_is_made_again(folder: Path, damage: Any) -> None:
    make = Maker()
    expected = stored(PATTERN, make)
    path = entry(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert stored(PATTERN, make) == expected
    assert make.made == 2
    assert stored(PATTERN, make) == expected
    assert make.made == 2


def test_a_place_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    for name in (str(blocked), "~nobody-of-this-name/x"):
        monkeypatch.setenv("AGENTRT_CACHE_DIR", name)
        assert stored(PATTERN, Maker()) == stored(PATTERN, Maker())


def test_a_full_disk_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agentrt.schema.disk.np.save", full)
    stored(PATTERN, Maker())
    assert list(folder.iterdir()) == []


def test_the_oldest_go_where_room_is_short(folder: Path) -> None:
    array = {"rows": np.random.default_rng(0).integers(0, 2**32, 1000, dtype=np.uint32)}
    entries = Entries("automata", most_bytes=10_000)
    for age, key in enumerate(("c", "b", "a")):
        entries.write(key, array)
        if (folder / f"{key}.npz").exists():
            os.utime(folder / f"{key}.npz", (1000 + age, 1000 + age))
    assert sorted(p.stem for p in folder.iterdir()) == ["a", "b"]
    assert entries.read("b") is not None  # now it is the latest used
    entries.write("d", array)
    assert sorted(p.stem for p in folder.iterdir()) == ["b", "d"]


_PROCESS = """
import agentrt.schema.regex.determinise as determinise
import agentrt.schema.regex.stored as stored
from agentrt.schema import compile_schema
stored._WORTH_S = -1.0
made = []
original = determinise._Subsets
determinise._Subsets = lambda *given: made.append(1) or original(*given)
schema = {"properties": {"a": {"format": "time"}, "b": {"pattern": "^a+b$"}}, "type": "object"}
grammar = compile_schema(schema)
assert grammar.matches('{"a":"12:00:00Z","b":"aab"}')
assert not grammar.matches('{"a":"12:00:00Z","b":"aa"}')
print(len(made))
"""


def test_the_next_process_reads_what_one_made() -> None:
    def run() -> int:
        done = subprocess.run(
            [sys.executable, "-c", _PROCESS], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    first = run()
    assert first >= 2
    assert run() == first - 2
