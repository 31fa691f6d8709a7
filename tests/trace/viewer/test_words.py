from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.trace.viewer.words import counted, harmless, lasted, one_line, plural, share


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (12_345, "12.3k"),
        (99_960, "100k"),
        (123_456, "123k"),
        (999_960, "1.0M"),
        (12_345_678, "12.3M"),
        (5e9, "5.0G"),
    ],
)
def test_counts(number: float, words: str) -> None:
    assert counted(number) == words


@given(st.floats(0, 9e11))
def test_counts_are_short(number: float) -> None:
    assert len(counted(number)) <= 6


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0ms"),
        (0.031, "31ms"),
        (0.0999, "0.1s"),
        (4.21, "4.2s"),
        (42.4, "42s"),
        (59.9, "1m00s"),
        (185, "3m05s"),
        (7380, "2h03m"),
        (3600 * 101, "4d05h"),
    ],
)
def test_times(seconds: float, words: str) -> None:
    assert lasted(seconds) == words


@given(st.floats(0, 3600 * 24 * 999))
def test_times_are_short(seconds: float) -> None:
    assert len(lasted(seconds)) <= 6


def test_words() -> None:
    assert plural(1, "branch") == "1 branch"
    assert plural(2, "branch") == "2 branches"
    assert plural(12_345, "program") == "12.3k programs"
    assert share(1, 3) == "33%"
    assert share(0, 0) == "-"


@given(st.text())
def test_a_text_cannot_do_anything_to_a_terminal(text: str) -> None:
    shown = harmless(text)
    controls = {char for char in shown if unicodedata.category(char) in {"Cc", "Cf"}}
    assert controls <= {"\n", "\u200d"}
    assert len(shown) == len(text)
    assert "\n" not in one_line(text)


def test_what_is_replaced() -> None:
    assert harmless("a\x1b[2Jb\x07\u202ec\n") == "a�[2Jb��c\n"
    assert one_line("a\n\n  b\tc") == "a b c"
    assert harmless("naïve 首都 👩‍🚀") == "naïve 首都 👩‍🚀"
