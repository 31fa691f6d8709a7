"""Regexes against Python's `re`."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.schema import compile_regex
from agentrt.schema.charset import chars
from agentrt.schema.regex.classes import ignoring_case
from agentrt.schema.regex.determinise import determinise
from agentrt.schema.regex.nodes import search
from agentrt.schema.regex.parse import parse
from tests.schema import random_regexes

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


@pytest.mark.parametrize("seed", range(4))
def test_random_regexes_agree_with_re(seed: int) -> None:
    random = Random(seed)
    tried = 0
    while tried < 120:
        pattern = random_regexes.pattern(random) + random_regexes.pattern(random)
        try:
            expected, dfa = re.compile(pattern), determinise(parse(pattern))
        except (re.error, SchemaError):
            continue
        tried += 1
        for text in [random_regexes.text(random) for _ in range(20)]:
            if text or r"\B" not in pattern:  # on which versions of Python differ
                assert dfa.matches(text) == bool(expected.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"\w\B", ["é", "ab"]),
        (r"é\b.", ["é ", "éa"]),
        (r"(?a:é\B.)", ["é ", "éa"]),
        (r"\bé(?a:\b)a", ["éa"]),
        (r"(?:.)*?(?=^)", ["", "aab "]),
        (r"(?i:A)(?:\S|(?=\b))", ["a", "ab", "a "]),
        (r"(?:b(?!(?<!b)))*", ["b", "bb"]),
        (r"a(?<=a(?=b)).", ["ab", "ac"]),
        (r"a(?<!a(?=b)).", ["ab", "ac"]),
        (r"a(?<!a(?!b)).", ["ab", "ac"]),
        (r"(?:a(?<=\b(?=a|b)a(?!c)))+.", ["ab", "aab", "ac", "aac"]),
        (r"a\n?(?<=a$)\n?", ["a", "a\n", "a\n\n"]),
        (r"(?m)a(?<=a$)(?s:.)+", ["a\n", "ab", "a\nb"]),
        (r"a(?=b(?<=ab(?=c(?<!bc)|d)))..", ["abc", "abd"]),
        (r"(?i)\W", ["ι", "\u0345", " "]),
        (r"(?i)[\Wa]", ["ι", "A", " "]),
        (r"a{,}", ["", "aa", "a{,}"]),
        (r"a(?#so){2}", ["aa", "a{2}"]),
        (r"(?x)a {2}", ["aa", "a{2}"]),
        ("(?x)a\u00a0b", ["ab", "a\u00a0b"]),
    ],
)
def test_places_look_arounds_and_syntax_agree_with_re(pattern: str, texts: list[str]) -> None:
    dfa = determinise(parse(pattern))
    assert [dfa.matches(text) for text in texts] == [bool(re.fullmatch(pattern, t)) for t in texts]


def test_word_boundaries_of_ecma_are_ascii_and_may_be_in_an_empty_text() -> None:
    def matches(pattern: str, text: str) -> bool:
        return determinise(parse(pattern, dialect="ecma")).matches(text)

    assert matches(r"é\B", "é")
    assert not matches(r"é\b", "é")
    assert matches(r"\B", "")
    # of Python before 3.14
    assert not determinise(parse(r"\B")).matches("")
    assert not determinise(parse(r"(?a)\B")).matches("")


def test_case_is_that_of_re() -> None:
    odd = [c for c in map(chr, range(0x250)) if c.lower() != c.upper()]
    odd += [c for c in map(chr, range(0x250, 0x10000)) if len(c.upper()) > 1]
    odd += [c.lower() for c in odd if len(c.lower()) == 1] + ["\u1f88", "\u0130", "\u212a"]
    text = "".join(sorted(set(odd)))
    for c in text:
        variants = ignoring_case(chars(c))
        assert [d for d in text if ord(d) in variants] == re.findall(f"(?i){c}", text)


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
        (r"[\1]", "escape"),
        (r"a++b", "possessive"),
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
