"""The `pattern` keyword: a regex that must match somewhere in the string."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from agentrt.errors import SchemaError, SchemaTooLarge
from agentrt.schema.limits import locate
from agentrt.schema.regex.determinise import determinise
from agentrt.schema.regex.nodes import Assertion, At, Cat, Chars, Node, Repeat, search
from agentrt.schema.regex.parse import parse
from agentrt.schema.regex.stored import stored
from agentrt.schema.values.strings import Strings

if TYPE_CHECKING:
    from agentrt.schema.regex.dfa import Dfa

_LONG = 64


def pattern_strings(pattern: str, pointer: str) -> Strings:
    """The strings that a pattern finds something in (ECMA-262, Unicode mode)."""
    locate(pointer)
    try:
        return _compiled(pattern)
    except SchemaTooLarge:
        raise
    except SchemaError as error:
        raise SchemaError(pointer, error.reason, error.suggestion) from None


@lru_cache(maxsize=2048)
def _compiled(pattern: str) -> Strings:
    tree = parse(pattern, dialect="ecma")
    return _long_repeat(tree) or _strings(
        stored(f"search {pattern}", lambda: determinise(search(tree)))
    )


def of_tree(tree: Node) -> Strings:
    return _strings(determinise(tree))


def _strings(dfa: Dfa) -> Strings:
    return Strings(None if dfa.is_universal else dfa)


def _long_repeat(tree: Node) -> Strings | None:
    """`^[...]{n,m}$` with large bounds, kept as a set of characters and a range of lengths."""
    match tree:
        case Cat((Assertion(At.START), Repeat(Chars() as body, lo, hi), Assertion(At.END))) if (
            max(lo, hi or 0) > _LONG
        ):
            dfa = determinise(Repeat(body, 0, None))
            return Strings(None if dfa.is_universal else dfa, lo, hi)
        case _:
            return None
