"""Masks in arrays whose items must differ, against the machine itself, token by token."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import numpy as np
import pytest

from agentrt.schema import GrammarMatcher, Vocabulary, compile_schema
from agentrt.schema.machine.machine import Machine

PIECES = r"""
    [ ] { } , : " \ - . 0 1 2 e E + / u 3 4 5 6 7 8 9 a b t r f l s n
    "," ", ," "a "a" "b" a" b" "", ,"a ,"a" ,"b", "a","b" "a","a" ,"] ","a", ","a","
    [] [[ ]] [[], ],[ ],[] ],["a "],[" ]],[[ ],[1 [1, 1] ]},{" "]},{"
    {} {" "} }} },{ },{" },{} "},{" "},{"a":" {},{} "}, "},{"a":"b"} ,{ ,{" ,{"a":1} ,{"a":[
    "a":1 "a":" "b":" ":" ":1 ":[ ":{" ","b":" ,"b":1 1,"b
    ":[1,1 ":[1,2
    1, ,1 ,2 1,2 1,1 ,1, 12 ,- null true false ,null null, ,true ,[1] 1},{"a":1 1}, 1},
"""


@pytest.fixture(scope="module")
def crossing() -> Vocabulary:
    """Of tokens that end items and begin others in most of the ways that there are."""
    pieces = dict.fromkeys([*PIECES.split(), " ", ", ", '", "', '"}, {"', "}, ", "], [", ": "])
    return Vocabulary([*(p.encode() for p in pieces), None], [len(pieces)])


TEXT: dict[str, Any] = {"type": "string"}
AB: dict[str, Any] = {"enum": ["a", "b", "ab"]}
FOUR: dict[str, Any] = {"enum": ["a", 1, {}, []]}


def unique(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "uniqueItems": True, "items": items, **more}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def needing(**properties: Any) -> dict[str, Any]:
    return {**closed(**properties), "required": [*properties]}


SCHEMAS: dict[str, Any] = {
    "few strings": unique(AB),
    "strings": unique(TEXT),
    "strings of a pattern": unique({"type": "string", "pattern": "^(a|b+)$"}),
    "bounded strings": unique({"type": "string", "pattern": "^[ab]*$", "maxLength": 2}),
    "numbers": unique({"type": "integer", "minimum": 1, "maximum": 12}),
    "any numbers": unique({"type": "number"}),
    "mixed": unique({"enum": ["a", 1, None, True, [], {"a": 1}, [1], {}, "1"]}),
    "objects of strings": unique(closed(a=TEXT, b=TEXT)),
    "objects of few": unique(needing(a=AB)),
    "objects of few, and one of many": unique(closed(a={"enum": [1, 2]}, b=TEXT)),
    "objects all needed": unique(needing(a=TEXT, b={"enum": [1, 2]})),
    "objects of any keys": unique({"type": "object", "additionalProperties": {"enum": [1, 2]}}),
    "objects of objects": unique(needing(a=closed(a={"enum": [1]}, b=closed(a=TEXT)))),
    "no more than one property": unique({**closed(a={"enum": [1, 2]}, b=TEXT), "maxProperties": 1}),
    "arrays of few": unique({"type": "array", "items": {"enum": [1, "a"]}, "maxItems": 2}),
    "arrays of strings": unique({"type": "array", "items": TEXT}),
    "unique within unique": unique(unique(TEXT)),
    "unique within objects within unique": unique(needing(a=unique(AB), b={"enum": [1]})),
    "unique strings within unique": unique(closed(a=unique(TEXT), b=TEXT)),
    "unique within any": {"type": "array", "items": unique(needing(a=AB))},
    "as many as there are": unique(AB, minItems=3),
    "few behind many": unique(FOUR, prefixItems=[closed(a=TEXT)], minItems=4),
    "many behind few": unique(TEXT, prefixItems=[FOUR, FOUR, FOUR], minItems=4),
    "some counted": unique(
        {"anyOf": [TEXT, {"type": "integer"}]},
        contains={"type": "integer"},
        maxContains=2,
        minItems=1,
    ),
    "recursive": {"$defs": {"r": unique(closed(a={"$ref": "#/$defs/r"}))}, "$ref": "#/$defs/r"},
    "recursive, with strings": {
        "$defs": {"r": unique(closed(a={"anyOf": [TEXT, needing(b={"$ref": "#/$defs/r"})]}))},
        "$ref": "#/$defs/r",
    },
    "either": {"anyOf": [unique(needing(a=AB)), {"type": "array", "items": closed(a=TEXT)}]},
}
STYLES: list[dict[str, Any]] = [
    {"key_order": "any"},
    {"key_order": "declared"},
    {"key_order": "any", "whitespace": "spaced"},
    {"key_order": "any", "whitespace": "free", "max_spaces": 1},
]


@pytest.mark.parametrize("style", STYLES, ids=lambda s: "-".join(map(str, s.values())))
@pytest.mark.parametrize("name", SCHEMAS)
def test_no_token_is_allowed_that_repeats_an_item_and_none_is_missed(
    name: str, style: dict[str, Any], crossing: Vocabulary
) -> None:
    grammar = compile_schema(SCHEMAS[name], crossing, **style)
    validator = jsonschema.Draft202012Validator(SCHEMAS[name])
    rng = random.Random(name + str(style))
    for _ in range(3):
        matcher = grammar.matcher(jump=False)
        while not matcher.is_finished and len(matcher.token_ids) < 14:
            found = _allowed(matcher, crossing)
            assert found == _followed(grammar.engine.machine, matcher, crossing), matcher.text
            assert found, matcher.text
            matcher.accept(_chosen(sorted(found), crossing, rng))
        if matcher.is_finished:
            validator.validate(json.loads(matcher.text))


def test_a_token_that_leaves_a_key_and_opens_an_array_repeats_no_item(crossing: Vocabulary) -> None:
    matcher = compile_schema(needing(a=unique({"enum": [1, 2]})), crossing).matcher(jump=False)
    for piece in (b'{"', b"a"):
        matcher.accept(crossing.tokens.index(piece))
    found = {crossing.tokens[i] for i in _allowed(matcher, crossing)}
    assert b'":[1,2' in found
    assert b'":[1,1' not in found


def _allowed(matcher: GrammarMatcher, vocabulary: Vocabulary) -> set[int]:
    mask = matcher.next().mask
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: vocabulary.size]
    return set(np.flatnonzero(bits).tolist())


def _followed(machine: Machine, matcher: GrammarMatcher, vocabulary: Vocabulary) -> set[int]:
    """The tokens that the machine goes along with after the whole text."""
    here = machine.run(machine.start, matcher.text)
    assert here is not None
    ways = enumerate(vocabulary.tokens)
    found = {i for i, t in ways if t and machine.run(here, t) is not None}
    return found | (set(vocabulary.eos_ids) if machine.may_end(here) else set())


def _chosen(allowed: list[int], vocabulary: Vocabulary, rng: random.Random) -> int:
    """Mostly a token that goes on with another item: where it does not, little can be repeated."""
    tokens = vocabulary.tokens
    crossing = [i for i in allowed if b"," in (tokens[i] or b"")]
    plain = [i for i in allowed if b"\\" not in (tokens[i] or b"\\")] or allowed
    return rng.choice(crossing if crossing and rng.random() < 0.6 else plain)
