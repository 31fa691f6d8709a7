"""Prompts stored so that what they begin with together is stored once.

A prompt is cut into chunks of `CHUNK` tokens from its start; a chunk is known by its tokens and the
chunk before it. Two hundred branches of one long prompt, or the turns of one chat, then share every
whole chunk they have in common, and a prompt is the id of its last chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.trace.encoding import id_bytes, unpack_ids

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

CHUNK = 64
_MOST_KNOWN = 1 << 16
"""Chunks remembered while writing, about 20 MB; forgetting them only stores some again."""


class ChunkWriter:
    """Finds the chunks that a prompt adds to those it has seen."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int | None, bytes]] = []
        """New chunks as (id, runtime, parent, ids), for whoever stores them to take."""
        self._known: dict[tuple[int, bytes], int] = {}
        self._next = 1
        self._last: tuple[int, Sequence[int], int | None] = (0, (), None)

    def add(self, runtime: int, ids: Sequence[int]) -> int | None:
        """The chunk that a prompt of one runtime ends with; None for an empty one."""
        known_runtime, known, chunk = self._last
        if ids is not known or runtime != known_runtime:
            chunk = self._path(runtime, ids)
            # Generations of one prompt come with the very same list.
            self._last = (runtime, ids, chunk)
        return chunk

    def _path(self, runtime: int, ids: Sequence[int]) -> int | None:
        width, raw = id_bytes(ids)
        head, step = bytes([width]), CHUNK * width
        chunk: int | None = None
        for start in range(0, len(raw), step):
            piece = head + raw[start : start + step]
            # The same ids mean other texts in another runtime: roots are apart.
            key = (chunk or -runtime, piece)
            chunk = self._known.get(key) or self._new(key, (runtime, chunk, piece))
        return chunk

    def _new(self, key: tuple[int, bytes], row: tuple[int, int | None, bytes]) -> int:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        chunk = self._known[key] = self._next
        self._next += 1
        self.rows.append((chunk, *row))
        return chunk


def read_prompt(db: sqlite3.Connection, chunk: int) -> list[int]:
    """The token ids of the prompt that ends with a chunk."""
    rows = db.execute(
        """
        WITH RECURSIVE path (id, parent, ids, back) AS (
            SELECT id, parent, ids, 0 FROM chunks WHERE id = ?
            UNION ALL
            SELECT chunks.id, chunks.parent, chunks.ids, back + 1
            FROM chunks JOIN path ON chunks.id = path.parent
        ) SELECT ids FROM path ORDER BY back DESC
        """,
        (chunk,),
    )
    return [token for (ids,) in rows for token in unpack_ids(ids)]
