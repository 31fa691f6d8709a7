"""Random walks: outputs of a random token chooser under the masks, each checked by jsonschema."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from agentrt.matching import Allowed

if TYPE_CHECKING:
    from agentrt.schema import Grammar

_SPARE = 60  # tokens beyond the fewest, at most: walks that are not stopped go on for ever


def walk(grammar: Grammar, chooser: random.Random, budget: int) -> bytes:
    """A text of at most so many tokens, its end included; raises ValueError where it is cut."""
    matcher = grammar.matcher(jump=False)
    for left in range(budget, 0, -1):
        following = matcher.next(left)
        assert isinstance(following, Allowed)
        octets = following.mask.view(np.uint8)
        allowed = np.flatnonzero(np.unpackbits(octets, bitorder="little"))
        if not allowed.size:
            raise ValueError(f"no token is allowed after {matcher.text!r}")
        matcher.accept(int(allowed[chooser.randrange(allowed.size)]))
        if matcher.is_finished:
            return matcher.text
    if not matcher.is_complete:
        raise ValueError(f"{matcher.text!r} is cut")
    return matcher.text


def wrong_walks(schema: Any, grammar: Grammar, *, count: int, seed: int = 0) -> list[str]:
    """What is wrong with `count` outputs: cut, no JSON, or refused by jsonschema with formats."""
    kind = validator_for(schema, default=Draft202012Validator)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    chooser = random.Random(seed)
    wrong: list[str] = []
    for _ in range(count):
        budget = grammar.min_tokens + 1 + chooser.randrange(_SPARE)
        try:
            text = walk(grammar, chooser, budget)
            problem = next(validator.iter_errors(json.loads(text)), None)
        except ValueError as error:
            wrong.append(str(error)[:300])
            continue
        if problem is not None:
            wrong.append(f"{text[:200]!r}: {problem.message[:200]}")
    return wrong
