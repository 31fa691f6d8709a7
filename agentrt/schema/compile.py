"""Compiling: a type, a schema, a regex or a list of choices to a grammar."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.schema.algebra.space import Space
from agentrt.schema.grammar import Grammar
from agentrt.schema.kept import Kept
from agentrt.schema.limits import Limits, limited
from agentrt.schema.load.loader import Loader, LoadOptions
from agentrt.schema.load.patterns import of_tree
from agentrt.schema.machine.machine import Machine, TextOptions
from agentrt.schema.prepare import prepare, warm
from agentrt.schema.regex.parse import parse
from agentrt.schema.regex.words import of_words
from agentrt.schema.tokens.vocabulary import Vocabulary, from_tokenizer
from agentrt.schema.values.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


DIGITS, MOST_DIGITS = 15, 32
"""The digits on each side of the point of numbers without bounds: of types, and of schemas."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a grammar is compiled from, in full: equal sources make equal grammars."""

    kind: Literal["schema", "regex", "choices"]
    text: str
    options: TextOptions = field(default_factory=TextOptions)
    formats: Literal["assert", "annotate"] = "assert"
    remotes: str = "{}"


def compile_schema(
    schema: Any,
    vocabulary: Any = None,
    *,
    key_order: Literal["declared", "any"] = "declared",
    whitespace: Literal["compact", "spaced", "free"] = "compact",
    max_spaces: int = 20,
    ascii_only: bool = False,
    max_digits: int | None = None,
    plain_numbers: Literal["none", "integers", "all"] | None = None,
    formats: Literal["assert", "annotate"] = "assert",
    remotes: Mapping[str, Any] | None = None,
    deadline: float | None = 10.0,
    size: int = 2_000_000,
    cancelled: Callable[[], bool] | None = None,
) -> Grammar:
    """The grammar of a JSON schema (a dict, a bool or JSON text) or of a Python type.

    `vocabulary` is a Vocabulary or a tokenizer; without one the grammar only matches text. The
    options of how JSON is written are those of TextOptions. `remotes` are further schema documents
    by URI. Numbers are plain by default for a type, in any of JSON's spellings for a schema; on
    each side of the point they have at most 15 digits for a type, what a float holds, and 32 for a
    schema. Raises
    SchemaError for what cannot be enforced exactly, UnsatisfiableSchema where no value fits,
    SchemaTooLarge past `deadline` seconds of the thread's own time or `size` units of work.
    """
    text = _schema_text(schema)
    options = TextOptions(
        key_order=key_order,
        whitespace=whitespace,
        max_spaces=max_spaces,
        ascii_only=ascii_only,
        max_digits=max_digits or (MOST_DIGITS if isinstance(schema, str | dict | bool) else DIGITS),
        plain_numbers=plain_numbers or _plain_numbers(schema, text),
    )
    source = Source("schema", text, options, formats, json.dumps(dict(remotes or {})))
    limits = Limits(deadline=deadline, size=size, cancelled=cancelled)
    return _compiled(source, _vocabulary(vocabulary), limits)


def compile_regex(
    pattern: str,
    vocabulary: Any = None,
    *,
    deadline: float | None = 10.0,
    size: int = 2_000_000,
    cancelled: Callable[[], bool] | None = None,
) -> Grammar:
    """The grammar of the texts that a regex (Python's syntax, the regular part) matches in full."""
    limits = Limits(deadline=deadline, size=size, cancelled=cancelled)
    return _compiled(Source("regex", pattern), _vocabulary(vocabulary), limits)


def compile_choices(
    choices: Sequence[str],
    vocabulary: Any = None,
    *,
    cancelled: Callable[[], bool] | None = None,
) -> Grammar:
    """The grammar of exactly these texts."""
    source = Source("choices", json.dumps(list(choices)))
    return _compiled(source, _vocabulary(vocabulary), Limits(cancelled=cancelled))


def rebuilt(source: Source, vocabulary: Vocabulary | None, jumps: bool) -> Grammar:
    """The grammar of a source, compiled anew where it is not among those kept."""
    grammar = _compiled(source, vocabulary, Limits(deadline=None))
    return grammar if jumps else grammar.without_jumps()


def _plain_numbers(schema: Any, text: str) -> Literal["none", "integers", "all"]:
    """A type's numbers are written plainly; in draft 4, 1.0 is no integer."""
    if not isinstance(schema, str | dict | bool):
        return "all"
    return "integers" if "json-schema.org/draft-04/" in text else "none"


def _schema_text(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, dict | bool):
        try:
            return json.dumps(schema)
        except (TypeError, ValueError, RecursionError) as error:
            raise SchemaError("", f"the schema is no JSON: {error}") from None
    from agentrt.schema.types import schema_of

    return json.dumps(schema_of(schema))


def _vocabulary(given: Any) -> Vocabulary | None:
    """The vocabulary to compile for: of equal ones the first, whose tree of tokens is made."""
    if given is None:
        return None
    vocabulary = given if isinstance(given, Vocabulary) else from_tokenizer(given)
    return _shared.setdefault(vocabulary.identity, vocabulary)


_kept: Kept[Grammar] = Kept(64)
_shared: WeakValueDictionary[tuple[str, bool], Vocabulary] = WeakValueDictionary()


def _compiled(source: Source, vocabulary: Vocabulary | None, limits: Limits) -> Grammar:
    """The grammar, from those compiled lately if it is among them."""

    def make() -> Grammar:
        with limited(limits):
            machine = _machine(source)
        grammar = Grammar(source, machine, vocabulary)
        if vocabulary is not None:
            # what all masks of a vocabulary need is made here: this is no engine's thread
            _ = grammar.engine.masks
            if source.kind == "schema":
                vocabulary.prepare()
            warm(machine)
        return grammar

    key = (source, None if vocabulary is None else vocabulary.identity)
    return _kept.get(key, make, limits)


def _check_characters(text: str, document: Any) -> None:
    if "\\ud" not in text.lower():
        return
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise SchemaError(
            "", "the schema holds half a surrogate pair, which no UTF-8 text can"
        ) from None


def _machine(source: Source) -> Machine:
    space = Space()
    if source.kind == "schema":
        try:
            document = json.loads(source.text)
        except (ValueError, RecursionError) as error:
            raise SchemaError("", f"the schema is no JSON: {error}") from None
        _check_characters(source.text, document)
        loader = Loader(
            space,
            document,
            remotes=json.loads(source.remotes),
            options=LoadOptions(source.formats),
        )
        try:
            machine = Machine(space, loader.root(), source.options)
            prepare(machine)
            space.settle()
        except RecursionError:
            raise SchemaError("", "the schema is nested too deep", "flatten it") from None
        return machine
    if source.kind == "regex":
        strings = of_tree(parse(source.text, dialect="python"))
    else:
        strings = Strings(of_words(json.loads(source.text)))
    if strings.is_empty:
        raise UnsatisfiableSchema("", f"no text matches this {source.kind}: {source.text!r:.80}")
    return Machine.of_texts(space, strings, source.options)
