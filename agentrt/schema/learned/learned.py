"""The masks of one grammar that took long to work out.

Of what a process pays for a schema, most goes into the first visits of places; compiling is the
smaller part, and reading a mask takes a hundredth of working it out. So what is kept is masks, each
with a text that leads to its place: arrays of numbers and nothing that runs. The text is replayed
when it is read, and a file that does not fit the grammar is as good as none. A mask that somebody
forged could at worst fail a request: the matcher follows the text itself, whatever a mask allows.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.learned.entries import Entries
from agentrt.schema.learned.places import Plain, is_lasting
from agentrt.schema.machine.closing import Closing

if TYPE_CHECKING:
    from agentrt.schema.machine.frames import Configuration
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.tokens.masks import Masks

FORMAT = 1
_MOST_PLACES = 256
ENTRIES = Entries("masks", most_bytes=128 << 20)


def entry_key(source: object, vocabulary: str) -> str:
    """The name of a grammar's entry: its source in full, its vocabulary's fingerprint, and the code
    that works masks out."""
    parts = f"{FORMAT}\n{_code()}\n{vocabulary}\n{source!r}"
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    """The package's version, and a hash of this room's files: in a checkout they change without
    it."""
    try:
        version = metadata.version("agentrt")
    except metadata.PackageNotFoundError:
        version = "uninstalled"
    digest = hashlib.sha256()
    room = Path(__file__).parents[1]
    for path in sorted(room.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{version} {digest.hexdigest()}"


class Learned:
    """What is known of one grammar's slow masks: read before the first, written on `save`.

    `key` is the entry's name; None keeps nothing.
    """

    def __init__(self, key: str | None, machine: Machine, masks: Masks) -> None:
        self.key = key
        self.machine = machine
        self.masks = masks
        self._read: dict[bytes, np.ndarray] = {}
        self._new: dict[int, tuple[bytes, np.ndarray]] = {}

    @property
    def read(self) -> int:
        """How many masks came from disk."""
        return len(self._read)

    def load(self) -> int:
        """Gives the masks what an earlier process worked out; returns how many."""
        arrays = None if self.key is None else ENTRIES.read(self.key)
        found = None if arrays is None else _places(arrays, self.masks.vocabulary.words)
        for text, mask in (found or {}).items():
            reached = self.machine.run(self.machine.start, text)
            if reached is not None:
                self._read[text] = mask
                self.masks.learn(reached, mask)
        return len(self._read)

    def note(self, text: bytes, configuration: Configuration) -> None:
        """Takes up the mask that was just worked out slowly, for the place that a text leads to."""
        stripped = self.masks.abstraction.of(configuration)
        mask = self.masks.slow.pop(stripped.number, None)
        self.masks.slow.clear()
        room = len(self._read) + len(self._new) < _MOST_PLACES
        if mask is not None and room and self.key is not None and is_lasting(stripped):
            self._new[stripped.number] = (text, mask)

    def save(self) -> None:
        """Writes what is new, beside what was read."""
        new, self._new = self._new, {}
        plain = Plain(self.machine, self.masks.abstraction, Closing(self.machine))
        found: dict[bytes, np.ndarray] = {}
        for text, mask in list(new.values()):
            shown = plain.of(text)
            if shown is not None:
                found[shown] = mask
        if found and self.key is not None:
            self._read |= found
            ENTRIES.write(self.key, _arrays(self._read))


def _arrays(places: dict[bytes, np.ndarray]) -> dict[str, np.ndarray]:
    """As three arrays: the texts one after the other, where each ends, and the masks."""
    return {
        "texts": np.frombuffer(b"".join(places), dtype=np.uint8),
        "ends": np.cumsum([len(text) for text in places], dtype=np.int64),
        "masks": np.stack(list(places.values())),
    }


def _places(arrays: dict[str, np.ndarray], words: int) -> dict[bytes, np.ndarray] | None:
    """The masks by text; None for arrays that are of something else."""
    if set(arrays) != {"texts", "ends", "masks"}:
        return None
    texts, ends, masks = arrays["texts"], arrays["ends"], arrays["masks"]
    if (texts.dtype, ends.dtype, masks.dtype) != (np.uint8, np.int64, np.uint32):
        return None
    if masks.ndim != 2 or masks.shape != (len(ends), words) or texts.ndim != 1 or ends.ndim != 1:
        return None
    starts = [0, *ends[:-1].tolist()]
    raw = texts.tobytes()
    return {raw[a:b]: mask for a, b, mask in zip(starts, ends.tolist(), masks, strict=True)}
