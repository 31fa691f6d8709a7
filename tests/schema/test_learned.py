"""Masks kept on disk: read by the next process, and never missed where they cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentrt.matching import Allowed
from agentrt.schema import Grammar, Vocabulary, compile_schema
from agentrt.schema.compile import _kept
from agentrt.schema.learned.entries import Entries
from agentrt.schema.tokens.masks import Masks

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "born": {"type": "string", "format": "date"},
        "pay": {"type": "integer", "minimum": 1000},
        "tags": {"type": "array", "items": {"enum": ["ab", "abc", "na"]}},
    },
    "additionalProperties": {"type": "boolean"},
}
TEXT = '{"name":"Zebediah","born":"1987-06-05","pay":73519,"tags":["abc","na"],"Quincy":true}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("agentrt.schema.tokens.masks._SLOW_S", -1.0)
    _kept.clear()
    return tmp_path / "masks"


def masks_along(grammar: Grammar, text: str) -> list[np.ndarray]:
    matcher, out = grammar.matcher(jump=False), []
    for token in grammar.engine.vocabulary.segment(text.encode()):
        following = matcher.next()
        assert isinstance(following, Allowed)
        out.append(following.mask)
        matcher.accept(token)
    return out


def learn(vocabulary: Vocabulary) -> list[np.ndarray]:
    """The masks of a text, worked out by a grammar that then forgets all but what is on disk."""
    grammar = compile_schema(SCHEMA, vocabulary)
    assert not grammar.engine.learned._read
    found = masks_along(grammar, TEXT)
    grammar.engine.learned.save()
    _kept.clear()
    return found


def entry(folder: Path) -> Path:
    (found,) = folder.glob("*.npz")
    return found


def test_what_was_learned_is_read_and_is_the_same(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = learn(vocabulary)
    grammar = compile_schema(SCHEMA, vocabulary)
    assert len(grammar.engine.learned._read) > 10
    worked_out: list[int] = []
    original = Masks._of_frames
    monkeypatch.setattr(
        Masks, "_of_frames", lambda self, c: worked_out.append(1) or original(self, c)
    )
    again = masks_along(grammar, TEXT)
    assert all((a == b).all() for a, b in zip(expected, again, strict=True))
    # a number begun is a place that hardly any other text comes to: it is not kept
    assert len(worked_out) < len(expected) / 4


def test_nothing_of_what_was_written_is_kept(vocabulary: Vocabulary, folder: Path) -> None:
    learn(vocabulary)
    with zipfile.ZipFile(entry(folder)) as members:
        texts = np.load(BytesIO(members.read("texts")), allow_pickle=False).tobytes()
    assert b'"name":"' in texts
    for private in (b"Zeb", b"iah", b"87", b"73", b"Qu"):
        assert private not in texts


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _flipped(content: bytes) -> bytes:
    at = len(content) // 3
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


def _of(**arrays: Any) -> bytes:
    out = BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _foreign(content: bytes) -> bytes:
    return _of(texts=np.zeros(3, np.uint8), ends=np.array([3]), masks=np.zeros((1, 2), np.uint32))


def _pickled(content: bytes) -> bytes:
    return _of(texts=np.array([print], dtype=object), ends=np.zeros(0), masks=np.zeros(0))


def _bomb(content: bytes) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("masks", bytes(65 << 20))
    return out.getvalue()


def _strange_ends(content: bytes) -> bytes:
    ends, words = np.array([-5, 10**12, 2]), -(-300 // 32)
    return _of(texts=np.zeros(3, np.uint8), ends=ends, masks=np.zeros((3, words), np.uint32))


@pytest.mark.parametrize(
    "damage",
    [_cut, _flipped, _foreign, _pickled, _bomb, _strange_ends, lambda _: b"", lambda _: b"\x80"],
)
def test_a_damaged_entry_is_made_again(vocabulary: Vocabulary, folder: Path, damage: Any) -> None:
    expected = learn(vocabulary)
    path = entry(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    again = learn(vocabulary)
    assert all((a == b).all() for a, b in zip(expected, again, strict=True))
    assert len(compile_schema(SCHEMA, vocabulary).engine.learned._read) > 10


def test_a_place_that_cannot_be_written_is_no_error(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("AGENTRT_CACHE_DIR", str(blocked))
    learn(vocabulary)
    monkeypatch.setenv("AGENTRT_CACHE_DIR", "~nobody-of-this-name/x")
    learn(vocabulary)


def test_a_full_disk_leaves_nothing_behind(
    vocabulary: Vocabulary, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agentrt.schema.learned.entries.np.save", full)
    learn(vocabulary)
    assert list(folder.iterdir()) == []


def test_the_oldest_go_where_room_is_short(folder: Path) -> None:
    array = {"masks": np.random.default_rng(0).integers(0, 2**32, 1000, dtype=np.uint32)}
    entries = Entries("masks", most_bytes=10_000)
    for age, key in enumerate(("c", "b", "a")):
        entries.write(key, array)
        if (folder / f"{key}.npz").exists():
            os.utime(folder / f"{key}.npz", (1000 + age, 1000 + age))
    assert sorted(p.stem for p in folder.iterdir()) == ["a", "b"]
    assert entries.read("b") is not None  # now it is the latest used
    entries.write("d", array)
    assert sorted(p.stem for p in folder.iterdir()) == ["b", "d"]


_PROCESS = """
import json, sys
import agentrt.schema.tokens.masks as masks
from agentrt.schema import Vocabulary, compile_schema
masks._SLOW_S = -1.0
vocabulary = Vocabulary([bytes([b]) for b in range(256)] + [b'{"', b'":', None], [258])
grammar = compile_schema({"type": "object", "required": ["name"]}, vocabulary)
print(len(grammar.engine.learned._read))
matcher = grammar.matcher()
for token in vocabulary.segment(b'{"name":[1,null]}'):
    matcher.next()
    matcher.accept(token)
"""


def test_the_next_process_reads_what_one_learned(folder: Path) -> None:
    def run() -> int:
        done = subprocess.run(
            [sys.executable, "-c", _PROCESS], capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    assert run() == 0
    assert run() > 3
