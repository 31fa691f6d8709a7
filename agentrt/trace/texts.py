"""Prompts and outputs of a recorded run: from token ids and what each token stands for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from agentrt.trace import attributes as names
from agentrt.trace.chunks import read_prompt
from agentrt.trace.damage import reads
from agentrt.trace.encoding import unpack, unpack_floats, unpack_ids
from agentrt.trace.records import Token, TokenOrigin
from agentrt.trace.rows import FLOATS, TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentrt.trace.damage import RecordConnection
    from agentrt.trace.spans import Value

_ORIGINS = {"s": TokenOrigin.SAMPLED, "f": TokenOrigin.FORCED}
Top = tuple[tuple[int, float], ...]


class RunTexts:
    """What was said in a run. None stands for what was not recorded, or not yet."""

    def __init__(self, db: RecordConnection) -> None:
        self.path = db.path
        self._db = db
        self._pieces: dict[int, dict[int, bytes]] = {}

    @reads
    def prompt(self, span_id: int) -> str | None:
        """The text of a prompt."""
        ids = self.prompt_ids(span_id)
        if ids is None:
            return cast("str | None", self.one(span_id, names.PROMPT_TEXT))
        return self.spell(self._runtime(span_id), ids).decode("utf-8", "replace")

    @reads
    def output(self, span_id: int) -> str | None:
        """The text of an output, without the stop string that ended it."""
        ids = self.output_ids(span_id)
        (chars,) = self._generation(span_id, "output_chars") or (None,)
        if ids is None or chars is None:
            return cast("str | None", self.one(span_id, names.OUTPUT_TEXT))
        return self.spell(self._runtime(span_id), ids).decode("utf-8", "replace")[:chars]

    @reads
    def prompt_ids(self, span_id: int) -> list[int] | None:
        (chunk,) = self._generation(span_id, "prompt") or (None,)
        return None if chunk is None else read_prompt(self._db, chunk)

    @reads
    def output_ids(self, span_id: int) -> list[int] | None:
        (blob,) = self._generation(span_id, "output_ids") or (None,)
        return None if blob is None else unpack_ids(blob)

    @reads
    def prompt_tokens(self, span_id: int) -> list[Token]:
        """The prompt token by token; empty where its ids are not recorded."""
        ids, runtime = self.prompt_ids(span_id) or [], self._runtime(span_id)
        (cached,) = self._generation(span_id, "cached_tokens") or (None,)
        logprobs = self.one(span_id, names.PROMPT_LOGPROBS)
        scores = cast("Sequence[float | None]", logprobs or ())
        unscored = len(ids) - len(scores)  # the scores are those of the last tokens
        return [
            Token(
                i,
                self.spell(runtime, [i]),
                TokenOrigin.CACHED if at < (cached or 0) else TokenOrigin.COMPUTED,
                scores[at - unscored] if at >= unscored else None,
            )
            for at, i in enumerate(ids)
        ]

    @reads
    def output_tokens(self, span_id: int) -> list[Token]:
        """The output token by token; empty where its ids are not recorded."""
        ids, runtime = self.output_ids(span_id), self._runtime(span_id)
        if ids is None:
            return []
        kinds = cast("str", self.one(span_id, names.TOKEN_KINDS) or "s" * len(ids))
        logprobs = self.one(span_id, names.TOKEN_LOGPROBS) or [None] * len(ids)
        top = cast("Sequence[Sequence[Any]]", self.one(span_id, names.TOKEN_TOP) or [()] * len(ids))
        return [
            Token(i, self.spell(runtime, [i]), _ORIGINS[kind], logprob, tuple(map(tuple, others)))
            for i, kind, logprob, others in zip(
                ids, kinds, cast("Sequence[float | None]", logprobs), top, strict=True
            )
        ]

    @reads
    def spell(self, runtime: int | None, ids: Iterable[int]) -> bytes:
        """What tokens of a runtime stand for; nothing for those that did not occur in the run."""
        if runtime is None:
            return b""
        pieces = self.pieces(runtime)
        try:
            return b"".join([pieces[i] for i in ids])
        except KeyError:  # written since, or never
            del self._pieces[runtime]
            pieces = self.pieces(runtime)
            return b"".join([pieces.get(i, b"") for i in ids])

    @reads
    def pieces(self, runtime: int) -> dict[int, bytes]:
        """The tokens that occurred, and what each stands for."""
        if runtime not in self._pieces:
            rows = self._db.execute("SELECT token, bytes FROM pieces WHERE runtime = ?", (runtime,))
            self._pieces[runtime] = dict(rows)
        return self._pieces[runtime]

    @reads
    def large(self, span_id: int) -> dict[str, Value]:
        """All the large attributes of a span, token ids and the texts they make included."""
        rows = self._db.execute("SELECT key, data FROM contents WHERE span = ?", (span_id,))
        found = {key: decoded(key, unpack(data)) for key, data in rows}
        for key, read in (
            (names.PROMPT_IDS, self.prompt_ids),
            (names.PROMPT_TEXT, self.prompt),
            (names.TOKEN_IDS, self.output_ids),
            (names.OUTPUT_TEXT, self.output),
        ):
            if key not in found and (value := read(span_id)) is not None:
                found[key] = value
        return found

    @reads
    def one(self, span_id: int, key: str) -> Value:
        """One large attribute that is stored as such; None where it is not there."""
        row = self._db.execute(
            "SELECT data FROM contents WHERE span = ? AND key = ?", (span_id, key)
        ).fetchone()
        return None if row is None else decoded(key, unpack(row[0]))

    def _runtime(self, span_id: int) -> int | None:
        (runtime,) = self._generation(span_id, "runtime") or (None,)
        return runtime

    def _generation(self, span_id: int, column: str) -> tuple[Any] | None:
        return self._db.execute(
            f"SELECT {column} FROM generations WHERE span = ?", (span_id,)
        ).fetchone()


def decoded(key: str, data: bytes) -> Value:
    """The value of a large attribute from its stored form."""
    if key in FLOATS:
        return unpack_floats(data)
    text = data.decode("utf-8", "surrogatepass")
    return text if key in TEXTS else json.loads(text)
