"""What must not be stored is nowhere in the files; everything else still is."""

from __future__ import annotations

import enum
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentrt.trace import SpanKind, span
from agentrt.trace import attributes as names
from agentrt.trace.engines import Tree, TreeNode
from agentrt.trace.privacy import REDACTION_FAILED, Privacy
from agentrt.trace.spans import Value, now_ns
from tests.trace.recorded import everything_in, generate, reading, recorded

SECRET = "sk-12345"


def write_secrets(folder: Path, **options: object) -> None:
    """A run in which the secret is in every place where a text can be."""
    with recorded(folder, **options) as run:
        with span(SpanKind.PROGRAM, "main", {names.PROGRAM_ARGUMENTS: {"key": [SECRET]}}) as main:
            main.set({"note": f"uses {SECRET}", "count": 3})
            main.event("called", header=SECRET, tries=2)
            # "t5 t6 " is what two tokens spell: a secret of its own.
            generate([1, 5, 6], [7, 8], OUTPUT_TEXT=f"{SECRET}!", SELECT_CHOICES=[SECRET, "b"])
            generate([1, 2], [5, 6])
            generate([3], [4])
        with pytest.raises(ValueError, match=SECRET), span(SpanKind.TOOL, "search"):
            raise ValueError(f"bad key {SECRET}")
        (runtime,) = run.recorder._runtimes
        node = TreeNode(length=2, tokens=(5, 6))
        runtime.trees.append(Tree(now_ns(), {SECRET: node}))


def hide(text: str) -> str:
    return re.sub(r"sk-\d+|t5 t6 ", "[hidden]", text)


def test_a_redaction_sees_every_text_before_it_is_stored(tmp_path: Path) -> None:
    write_secrets(tmp_path, redact=hide)
    assert SECRET.encode() not in everything_in(tmp_path)
    with reading(tmp_path) as run:
        main, tool = run.children(run.root().id)
        assert run.attributes(main.id) == {"note": "uses [hidden]", "count": 3}
        assert run.attributes(main.id, large=True)[names.PROGRAM_ARGUMENTS] == {"key": ["[hidden]"]}
        assert run.attributes(tool.id)["exception.message"] == "bad key [hidden]"
        (event,) = run.events(main.id)
        assert event.attributes == {"header": "[hidden]", "tries": 2}
        in_prompt, in_output, clean = run.children(main.id)
        assert run.texts.prompt_ids(in_prompt.id) is None
        assert run.texts.prompt(in_prompt.id) == "t1 [hidden]"
        assert run.texts.output(in_prompt.id) == "[hidden]!"
        assert run.texts.prompt_ids(in_output.id) == [1, 2]
        assert run.texts.output_ids(in_output.id) is None
        assert run.texts.output(in_output.id) == "[hidden]"
        assert run.texts.prompt_ids(clean.id) == [3]
        assert run.texts.output(clean.id) == "t4 "
        assert set(run.texts.pieces(1).values()) == {b"t1 ", b"t2 ", b"t3 ", b"t4 ", b"t7 ", b"t8 "}
        (tree,) = run.trees(1)
        assert [(name, node.tokens, node.length) for name, node in tree.roots.items()] == [
            ("namespace 0", None, 2)
        ]
        assert list(run.search("sk-")) == []


def test_without_content_no_text_and_no_token_is_stored(tmp_path: Path) -> None:
    write_secrets(tmp_path, content=False)
    stored = everything_in(tmp_path)
    assert SECRET.encode() not in stored
    assert b"t7 " not in stored
    with reading(tmp_path) as run:
        assert not run.info().content
        main, tool = run.children(run.root().id)
        assert (main.name, run.attributes(main.id, large=True)) == ("main", {"count": 3})
        assert run.attributes(tool.id, large=True) == {"error.type": "ValueError"}


def test_without_content_the_numbers_are_there(tmp_path: Path) -> None:
    with recorded(tmp_path, content=False):
        made = generate([1, 2], [3], TOKEN_KINDS="f", TOKEN_LOGPROBS=[-1.0], CONSTRAINT="a|b")
    with reading(tmp_path) as run:
        assert run.info().usage.prompt_tokens == 2
        found = run.attributes(made.id, large=True)
        assert found[names.REQUEST_MODEL] == "model"
        assert found[names.TOKEN_KINDS] == "f"
        missing = {names.CONSTRAINT, names.PROMPT_IDS, names.TOKEN_IDS, names.TOKEN_LOGPROBS}
        assert not missing & found.keys()
        assert run.texts.output(made.id) is None
        assert run.texts.output_tokens(made.id) == []
        for table in ("chunks", "pieces"):
            assert run.db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_a_redaction_that_fails_lets_nothing_through(tmp_path: Path) -> None:
    def broken(text: str) -> str:
        raise KeyError(text)

    write_secrets(tmp_path, redact=broken)
    assert SECRET.encode() not in everything_in(tmp_path)
    with reading(tmp_path) as run:
        assert {s.name for s in run.spans()} == {REDACTION_FAILED}


@pytest.mark.parametrize(
    ("value", "redacted"),
    [
        ("a", "A"),
        (1, 1),
        (None, None),
        ([1, 2.5, None], [1, 2.5, None]),
        (["a", 1, ["b"]], ["A", 1, ["B"]]),
        ({"k": {"a": ("b", 1)}}, {"K": {"A": ["B", 1]}}),
    ],
)
def test_texts_are_found_wherever_they_are_in_a_value(value: Value, redacted: Value) -> None:
    assert Privacy(redact=str.upper).attributes({"x": value}) == {"X": redacted}


def test_a_redaction_that_returns_no_text_lets_nothing_through() -> None:
    assert Privacy(redact=lambda _: None).text("secret") == REDACTION_FAILED  # type: ignore[arg-type,return-value]


class Key(enum.Enum):
    SECRET = SECRET


class TextKey(str, enum.Enum):  # noqa: UP042
    SECRET = SECRET


@dataclass
class Config:
    key: str = SECRET


class Opaque:
    def __repr__(self) -> str:
        return f"<client {SECRET}>"


NO_JSON: dict[str, Any] = {
    "bytes": SECRET.encode(),
    "bytearray": bytearray(SECRET.encode()),
    "memoryview": memoryview(SECRET.encode()),
    "set": {SECRET},
    "frozenset": frozenset([SECRET]),
    "path": Path("/home") / SECRET,
    "enum": Key.SECRET,
    "text enum": TextKey.SECRET,
    "dataclass": Config(),
    "object": Opaque(),
    "exception": ValueError(SECRET),
    "array": np.array([SECRET]),
    "deque": deque([SECRET]),
    "dict values": {1: SECRET}.values(),
    "key": {Key.SECRET: {SECRET.encode(): 1}},
    "key of two": {(SECRET, 1): 1},
}


@pytest.mark.parametrize("kind", NO_JSON)
@pytest.mark.parametrize("options", [{"redact": hide}, {"content": False}], ids=str)
def test_what_is_no_json_is_no_way_around(
    kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    value = NO_JSON[kind]
    given = {"mine": value, "mine.deep": [1, {"a": (value,)}]}
    given |= {names.PROGRAM_RESULT: value, names.REQUEST_SEED: value}
    if not isinstance(value, str):  # a text under a name that is no content is stored
        given[names.TOOL_TYPE] = value
    with recorded(tmp_path, **options), span(SpanKind.STEP, "s", given) as step:
        step.event("called", mine=value)
    stored = everything_in(tmp_path)
    assert not re.search(rb"sk-12345|115, ?107, ?45, ?49", stored)
    with reading(tmp_path) as run:
        assert run.info().dropped == 0
        (found,) = run.children(run.root().id)
        shown = run.attributes(found.id, large=True)
        assert ("mine" in shown) is ("redact" in options)
        if "redact" in options:
            assert "[hidden]" in str(shown["mine"])
            assert "[hidden]" in str(shown["mine.deep"])


def test_what_cannot_be_described_is_said_so() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise KeyError(SECRET)

    assert Privacy(redact=hide).attributes({"x": Broken()}) == {  # type: ignore[dict-item]  # pyright: ignore
        "x": "[not recorded: its repr raised KeyError]"
    }
