"""Regexes against Python's `re`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.schema import compile_regex
from agentrt.schema.regex.determinise import determinise
from agentrt.schema.regex.nodes import search
from agentrt.schema.regex.parse import parse

PATTERNS = [
    r"abc", r"a|b*c", r"[a-c]{2,4}x?", r"^foo$|^bar$", r"(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9]{4,8}",
    r"\bfoo\b", r"(?<=a)b+", r"a(?!b)c*", r"(?i)hello", r"x{0,3}?y", r"(?<!a)b",
    r"((a|b)c)+(?=d)d", r"a$", r"^$", r"(?m)^a$", r"\B.", r"(?:a(?=b|c)[bc])*", r"[^a-c\n]+",
    r"(?s).", r"(?x) a b # comment", r"a{,2}", r"\x41\u0042", r"(?!ab)[ab]{2,3}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
@given(st.text(alphabet="abcdxyfoABhelHELO1 \n", max_size=7))
@settings(max_examples=150, deadline=None)
def test_agrees_with_re(pattern: str, text: str) -> None:
    tree = parse(pattern)
    assert determinise(tree).matches(text) == bool(re.fullmatch(pattern, text))
    assert determinise(search(tree)).matches(text) == bool(re.search(pattern, text))


ATOMS = st.sampled_from(
    ["a", "b", "[ab]", ".", "a?", "b*", "(a|bb)", "(?=a)", "(?!b)", "^", "$", "ab{1,2}"]
)


@given(st.lists(ATOMS, max_size=6), st.text(alphabet="ab\n", max_size=6))
@settings(max_examples=400, deadline=None)
def test_any_combination_agrees_with_re(atoms: list[str], text: str) -> None:
    pattern = "".join(atoms)
    assert determinise(parse(pattern)).matches(text) == bool(re.fullmatch(pattern, text))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"(a)\1", "back-reference"),
        (r"(?P<n>a)(?P=n)", "back-reference"),
        (r"(a)?(?(1)b|c)", "conditional"),
        (r"(?>a|ab)c", "atomic"),
        (r"(a", "missing"),
        (r"a**", "quantifier"),
        (r"[b-a]", "backwards"),
        (r"\p{Nonsense}", "property"),
    ],
)
def test_what_is_not_regular_is_refused_by_name(pattern: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        compile_regex(pattern)


def test_a_regex_that_matches_nothing_is_unsatisfiable() -> None:
    with pytest.raises(UnsatisfiableSchema):
        compile_regex(r"a(?!b)b")


def test_characters_are_whole_in_utf8() -> None:
    grammar = compile_regex("[\U0001f600-\U0001f64f]+")
    assert grammar.matches("\U0001f628\U0001f64f")
    assert grammar.accepts_prefix("\U0001f628".encode()[:3])
    assert not grammar.accepts_prefix("\U0001f920".encode()[:3])
    assert not grammar.accepts_prefix(b"\xc0\xaf")
