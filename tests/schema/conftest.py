"""A small vocabulary with every kind of token that is hard to get right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentrt.schema import Vocabulary
from agentrt.schema.compile import _kept

WORDS = [
    '{"', '":', '":"', '","', '"}', '"]', '["', '{}', "[]", '""', "},", "],", "true", "false",
    "null",
    "name", "na", "me", "age", "ab", "abc", "kids", "12", "0.5", ".0", "e+", "\\n", "\\u00", "\\\"",
    '","name":"', '":{"', " the", "  ", "\u00e9", "\u4f60\u597d", "\U0001f600", '"a"', ',"a":1',
]  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is read from the user's cache, or written there, at the end of the process either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTRT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
        _kept.clear()


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """Every byte, some words, cut characters, a special token and an end token."""
    tokens: list[bytes | None] = [bytes([b]) for b in range(256)]
    tokens += [w.encode() for w in WORDS]
    tokens += ["\U0001f600".encode()[:2], "\U0001f600".encode()[2:], "\u00e9".encode()[1:] + b'"']
    tokens += [None, None]
    return Vocabulary(tokens, [len(tokens) - 1])
