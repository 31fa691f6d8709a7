"""Finds a text in a recorded run by looking through it.

No index: one costs time while the run is recorded, and what a run can hold is looked through in
less time than it takes to read the first hit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.trace import attributes as names
from agentrt.trace.encoding import unpack, unpack_ids
from agentrt.trace.records import Hit

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from agentrt.trace.texts import RunTexts

_AROUND = 60
"""Characters of an excerpt on each side of what was found."""


def find(db: sqlite3.Connection, texts: RunTexts, text: str) -> Iterator[Hit]:
    """Every place where `text` occurs, as `RecordedRun.search` orders them."""
    if not text:
        return
    needle = text.encode("utf-8", "surrogatepass").lower()
    yield from _in_names(db, needle)
    yield from _in_attributes(db, needle)
    yield from _in_outputs(db, texts, needle)
    yield from _in_prompts(db, texts, needle)
    yield from _in_contents(db, needle)


def _in_names(db: sqlite3.Connection, needle: bytes) -> Iterator[Hit]:
    for span, name in db.execute("SELECT id, name FROM spans ORDER BY id"):
        yield from _hits(span, "name", name.encode("utf-8", "surrogatepass"), needle)


def _in_attributes(db: sqlite3.Connection, needle: bytes) -> Iterator[Hit]:
    rows = db.execute("SELECT id, json FROM attributes")
    found = {i: raw for i, text in rows if needle in (raw := text.encode()).lower()}
    if not found:
        return
    for span, i in db.execute("SELECT id, attributes FROM spans ORDER BY id"):
        if i in found:
            yield from _hits(span, "attributes", found[i], needle)


def _in_outputs(db: sqlite3.Connection, texts: RunTexts, needle: bytes) -> Iterator[Hit]:
    rows = db.execute(
        "SELECT span, runtime, output_ids FROM generations WHERE output_ids IS NOT NULL "
        "ORDER BY span"
    )
    for span, runtime, blob in rows:
        yield from _hits(span, names.OUTPUT_TEXT, texts.spell(runtime, unpack_ids(blob)), needle)


def _in_prompts(db: sqlite3.Connection, texts: RunTexts, needle: bytes) -> Iterator[Hit]:
    """One hit for each chunk that the text ends in first, in the first span whose prompt has it."""
    ends = _chunks_with(db, texts, needle)
    if not ends:
        return
    users: dict[int, list[int]] = {}
    parents = dict(db.execute("SELECT id, parent FROM chunks ORDER BY id"))
    first: dict[int | None, int | None] = {None: None}
    for chunk, parent in parents.items():  # parents come before their children
        first[chunk] = first.get(parent) or (chunk if chunk in ends else None)
    for span, chunk in db.execute(
        "SELECT span, prompt FROM generations WHERE prompt IS NOT NULL ORDER BY span"
    ):
        found = first.get(chunk)
        if found is not None:
            users.setdefault(found, []).append(span)
    for chunk, spans in users.items():
        prompt = texts.spell(ends[chunk], texts.prompt_ids(spans[0]) or ())
        yield from _hits(spans[0], names.PROMPT_TEXT, prompt, needle, others=len(spans) - 1)


def _chunks_with(db: sqlite3.Connection, texts: RunTexts, needle: bytes) -> dict[int, int]:
    """Chunks that the text ends in, whatever chunk it began in, and their runtimes."""
    found: dict[int, int] = {}
    tails: dict[int | None, bytes] = {None: b""}
    for chunk, runtime, parent, blob in db.execute(
        "SELECT id, runtime, parent, ids FROM chunks ORDER BY id"
    ):
        text = tails.get(parent, b"") + texts.spell(runtime, unpack_ids(blob)).lower()
        if needle in text:
            found[chunk] = runtime
        tails[chunk] = text[len(text) - len(needle) + 1 :] if len(needle) > 1 else b""
    return found


def _in_contents(db: sqlite3.Connection, needle: bytes) -> Iterator[Hit]:
    searched = sorted(names.LARGE - {names.TOKEN_KINDS, names.TOKEN_TOP} - _NUMERIC)
    rows = db.execute(
        f"SELECT span, key, data FROM contents WHERE key IN ({', '.join('?' * len(searched))}) "
        "ORDER BY span",
        searched,
    )
    for span, key, data in rows:
        yield from _hits(span, key, unpack(data), needle)


_NUMERIC = {names.PROMPT_LOGPROBS, names.TOKEN_LOGPROBS, names.PROMPT_IDS, names.TOKEN_IDS}


def _hits(span: int, field: str, raw: bytes, needle: bytes, *, others: int = 0) -> Iterator[Hit]:
    at = raw.lower().find(needle)
    if at < 0:
        return
    before = raw[:at].decode("utf-8", "replace")[-_AROUND:]
    found = raw[at : at + len(needle)].decode("utf-8", "replace")
    after = raw[at + len(needle) :][: 4 * _AROUND].decode("utf-8", "replace")[:_AROUND]
    start = len(before)
    yield Hit(span, field, before + found + after, start, start + len(found), others)
