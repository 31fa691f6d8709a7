"""Every format of 2020-12: what the RFCs say of texts at their edges, and random outputs."""

from __future__ import annotations

import json
import random

import pytest
from jsonschema import Draft202012Validator

from agentrt.schema import Grammar, Vocabulary, compile_schema
from benchmarks.schema_walks import walk

VALID = {
    "date-time": ["2020-01-02t03:04:05.0123456789012z"],
    "time": ["23:59:59.1234567890+23:59"],
    "duration": ["P1Y2M3DT4H5M6S", "P1M", "PT1M", "P2W"],
    "email": ['"a \\" b"@c.d', "a@[IPv6:::1]"],
    # RFC 6531, 3.3
    "idn-email": ["m\u00fcller@m\u00fcller-\u00fcber.de", "\U0001f600@b.c", '"\u00e9 \u00e8"@b.c'],
    "hostname": ["a-b.1c", "a" * 63 + ".b"],
    # RFC 5890, 2.3.2.1; RFC 5892, 2.6; RFC 5893, 2
    "idn-hostname": [
        "m\u00fcller-\u00fcber.de", "stra\u00dfe.de", "\u4f8b\u3048.jp", "1a.b",
        "a.\u05d2\u05d58", "a.b.c.d.e.f.g.h",
    ],
    "ipv4": ["255.0.1.99"],
    "ipv6": ["::", "1:2:3:4:5:6:7::", "::ffff:1.2.3.4"],
    "uri": ["a:", "http://[v1.a:b]:80/?#", "urn:a:b"],
    "uri-reference": ["", "//a:1", "?", "a/b:c"],
    # RFC 3987, 2.2: ucschar goes up to %xDFFFD without a gap, iprivate is of queries alone
    "iri": ["a:\u00e9", "a:\U00010000\U00040000\U000dfffd", "a:?\ue000"],
    "iri-reference": ["\U00041234", "?\U000f0000"],
    "uuid": ["0123aBcD-0000-0000-0000-00000000000f"],
    # RFC 6570, 2.4.1: prefixes of less than 10,000
    "uri-template": ["{+a.b:9999,c*}", "{%41}", "a\u00a0\ue000", "%41"],
    "json-pointer": ["", "/", "/~0~1"],
    "relative-json-pointer": ["0", "10#", "1/a"],
    "regex": ["a^b$c|^", "(?<!ab)(?:c{2,}?)"],
}  # fmt: skip
INVALID = {
    "date-time": ["2020-01-02T03:04:05.Z", "2020-01-02 03:04:05Z"],
    "time": ["24:00:00Z", "12:00:00"],
    "duration": ["P", "PT", "P1D2W", "P1.5D", "PT1H1S"],
    "email": ["a..b@c.d", "a@b_c", "a@[1.2.3]"],
    "idn-email": ["\u00e9", "a..b@c.d", "a@\u00fc-.de", "a@0a.\u05d2"],
    "hostname": ["-a", "a" * 64, "a.", "a_b", ".".join(["a" * 63] * 4)],
    "idn-hostname": [
        "\u0629\u00fc", "0a.\u05d2\u05d5", "8\u05d2", "\u00fc-", "\u4f8b-.jp", "\u00fc.",
    ],
    "ipv4": ["256.0.0.1", "01.2.3.4"],
    "ipv6": [":::", "1::2::3", "1:2:3:4:5:6:7", "::1%a"],
    "uri": ["", "a", "a:\u00e9", "a:%4", "http://[1::2::3]"],
    "uri-reference": ["a b", "1a:b", "\n"],
    "iri": ["a:\ue000", "a:\U0001fffe", "a: "],
    "iri-reference": ["\ue000", "a\\b"],
    "uuid": ["0123abcd00000000000000000000000f"],
    "uri-template": ["{", "{a:0}", "{a:10000}", "{a*:1}", "%4", "a\x7f", "a\x85", "\ufffe"],
    "json-pointer": ["a", "/~2", "/~"],
    "relative-json-pointer": ["01", "#", "-1"],
    "regex": ["(", "a**", "[b-a]", "\\", "^*"],
}  # fmt: skip


def _grammar(name: str, vocabulary: Vocabulary | None = None) -> Grammar:
    return compile_schema({"type": "string", "format": name}, vocabulary)


@pytest.mark.parametrize("name", VALID)
def test_what_a_format_holds(name: str) -> None:
    grammar = _grammar(name)
    assert [t for t in VALID[name] if not grammar.matches(json.dumps(t, ensure_ascii=False))] == []
    assert [t for t in INVALID[name] if grammar.matches(json.dumps(t, ensure_ascii=False))] == []


def _judge_is_wrong(name: str, text: str) -> bool:
    """Texts that the checkers of jsonschema refuse, and the RFCs do not."""
    return (
        (name in ("iri", "iri-reference") and max(text, default="") > "\uffff")
        or (name == "uri-template" and any(p[:4].isdigit() for p in text.split(":")[1:]))
        or (name == "relative-json-pointer" and "0" in text[1:])
    )


@pytest.mark.parametrize("name", VALID)
def test_random_outputs_of_a_format(name: str, vocabulary: Vocabulary) -> None:
    schema = {"type": "string", "format": name}
    judge = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    grammar, chooser = _grammar(name, vocabulary), random.Random(name)
    texts = [json.loads(walk(grammar, chooser, grammar.min_tokens + 60)) for _ in range(60)]
    wrong = [t for t in texts if not judge.is_valid(t) and not _judge_is_wrong(name, t)]
    assert wrong == []
    assert sum(not _judge_is_wrong(name, t) for t in texts) >= 10
