"""Growing JSON texts: what is complete, what is growing, where it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.schema import MISSING, partial, token_spans

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_null_is_not_missing() -> None:
    found = partial('{"a":null,"b":')
    assert found.value == {"a": None}
    assert "b" not in found.value
    assert partial("").value is MISSING


def test_open_string_is_given_apart() -> None:
    found = partial('{"a":1,"b":["x","gro\\u00e9\\n')
    assert found.value == {"a": 1, "b": ["x"]}
    assert found.growing == (("b", 1), "gro\u00e9\n")


@pytest.mark.parametrize("cut", ["\\", "\\u", "\\u00", "\\ud83d", "\\ud83d\\", "\\ud83d\\ude0"])
def test_cut_escape_is_left_out(cut: str) -> None:
    assert partial('["ok' + cut).growing == ((0,), "ok")


def test_number_is_complete_only_once_something_follows() -> None:
    assert partial("[1,2").value == [1]
    assert partial("[1,2,").value == [1, 2]


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="byte 1"):
        partial("{1")


@given(JSON_VALUES)
def test_whole_text_is_the_value_and_spans_are_its_parts(value: Any) -> None:
    text = json.dumps([value]).encode()
    found = partial(text)
    assert found.value == [value]
    assert found.growing is None
    for pointer, span in found.spans.items():
        part: Any = [value]
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            part = part[int(key)] if isinstance(part, list) else part[key]
        assert json.loads(text[span.start : span.end]) == part


@given(JSON_VALUES, st.data())
def test_every_prefix_is_read(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value).encode()
    partial(text[: data.draw(st.integers(0, len(text)))])


def test_token_spans_cover_the_tokens_that_touch_a_value() -> None:
    pieces = [b'{"', b"a", b'":', b"1", b"2", b',"b', b'":"', b"xy", b'"}']
    spans = partial(b"".join(pieces)).spans
    assert token_spans(pieces, spans)["/a"] == range(3, 5)
    assert token_spans(pieces, spans)["/b"] == range(6, 9)
