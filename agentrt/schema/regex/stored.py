"""Automata kept on disk.

Of compiling, the subset construction is what can be dear (an e-mail address takes 150 ms, where a
whole schema without formats takes one); an automaton is read again in one or two milliseconds. It
depends on its pattern alone, so nothing of what anybody generated is in the file, and it is arrays
of numbers, nothing that runs. Grammars and masks are not kept: making them from automata takes no
longer than reading them would.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.disk import Entries
from agentrt.schema.regex.alphabet import Alphabet
from agentrt.schema.regex.dfa import Dfa

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT = 1
_WORTH_S = 0.005  # what takes less to make is not worth a file
_ENTRIES = Entries("automata", most_bytes=64 << 20)


def stored(pattern: str, make: Callable[[], Dfa]) -> Dfa:
    """The automaton of a pattern: read if it is there whole, else made, and kept if that was dear.

    `pattern` says all that it depends on, its dialect and use included.
    """
    key = hashlib.sha256(f"{_code()}\n{pattern}".encode("utf-8", "surrogatepass")).hexdigest()
    arrays = _ENTRIES.read(key)
    found = None if arrays is None else _automaton(arrays)
    if found is not None:
        return found
    start = thread_time()
    found = make()
    if thread_time() - start > _WORTH_S:
        _ENTRIES.write(key, _arrays(found))
    return found


@lru_cache(maxsize=1)
def _code() -> str:
    """The format, the package's version, and a hash of the code that makes automata: in a checkout
    that changes without the version."""
    try:
        version = metadata.version("agentrt")
    except metadata.PackageNotFoundError:
        version = "uninstalled"
    digest = hashlib.sha256()
    room = Path(__file__).parent
    for path in (*sorted(room.glob("*.py")), room.parent / "charset.py"):
        digest.update(path.read_bytes())
    return f"{FORMAT} {version} {digest.hexdigest()}"


def _arrays(dfa: Dfa) -> dict[str, np.ndarray]:
    return {
        "starts": np.array(dfa.alphabet.starts, dtype=np.int64),
        "classes": np.array(dfa.alphabet.classes, dtype=np.int64),
        "rows": np.array(dfa.rows, dtype=np.int64),
        "accepting": np.array(sorted(dfa.accepting), dtype=np.int64),
    }


def _automaton(arrays: dict[str, np.ndarray]) -> Dfa | None:
    """The automaton of these arrays; None where they describe none."""
    if set(arrays) != {"starts", "classes", "rows", "accepting"}:
        return None
    starts, classes, rows, accepting = (
        arrays[name] for name in ("starts", "classes", "rows", "accepting")
    )
    if any(a.dtype != np.int64 for a in arrays.values()) or rows.ndim != 2 or not rows.size:
        return None
    if any(a.ndim != 1 for a in (starts, classes, accepting)) or len(starts) != len(classes):
        return None
    states, size = rows.shape
    ordered = len(starts) > 0 and starts[0] == 0 and bool((np.diff(starts) > 0).all())
    within = all(
        bool(((a >= 0) & (a < bound)).all())
        for a, bound in ((classes, size), (rows, states), (accepting, states))
    )
    if not ordered or starts[-1] > 0x10FFFF or not within:
        return None
    symbols = Alphabet(tuple(starts.tolist()), tuple(classes.tolist()), size)
    return Dfa(symbols, tuple(map(tuple, rows.tolist())), frozenset(accepting.tolist()))
