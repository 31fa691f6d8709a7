"""`agentrt schema`: what a type compiles to for a model, or why it cannot be enforced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.commands.common import add_json, add_model, load_type, print_json
from agentrt.errors import SchemaError

if TYPE_CHECKING:
    import argparse

    from agentrt.schema import Grammar


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "type",
        metavar="TYPE",
        help="module:Class, file.py:Class, or a JSON schema (a file or the schema itself)",
    )
    add_model(parser)
    add_json(parser, "for machines; a refusal too")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace) -> int:
    kind = load_type(asked.type)
    try:
        facts = _facts(kind, asked.model)
    except SchemaError as error:
        if not asked.json:
            raise
        refusal = {"pointer": error.pointer, "reason": error.reason, "suggestion": error.suggestion}
        print_json({"refused": refusal})
        return 2
    if asked.json:
        print_json(facts)
    else:
        _show(facts)
    return 0


def _facts(kind: Any, model: str | None) -> dict[str, Any]:
    from agentrt.programs.describe import describe
    from agentrt.runtime.codec import ModelCodec
    from agentrt.runtime.models import resolve
    from agentrt.schema import compile_schema, schema_of
    from agentrt.schema.statistics import count_states

    schema = kind if isinstance(kind, dict) else schema_of(kind)
    files = resolve(model)
    grammar = compile_schema(kind, ModelCodec(files).vocabulary)
    states, is_whole = count_states(grammar)
    figures = grammar.statistics()
    return {
        "model": files.name,
        "fields": describe(schema),
        **_regex(grammar),
        "states": states,
        "all_states": is_whole,
        "min_tokens": figures.min_tokens,
        "shortest": figures.shortest,
        "shortest_tokens": figures.shortest_tokens,
        "shortest_forced": figures.forced_tokens,
        "schema": schema,
    }


def _regex(grammar: Grammar) -> dict[str, str | None]:
    """The regex of a flat schema, or why there is none."""
    try:
        return {"regex": grammar.regex(most=2_000), "no_regex": None}
    except SchemaError as error:
        return {"regex": None, "no_regex": str(error)}


def _show(facts: dict[str, Any]) -> None:
    states = f"{facts['states']}" if facts["all_states"] else f"more than {facts['states']}"
    forced, tokens = facts["shortest_forced"], facts["shortest_tokens"]
    share = forced / max(tokens, 1)
    if facts["fields"]:
        print(facts["fields"])
    print(f"regex       {facts['regex'] or 'none: ' + facts['no_regex']}")
    print(f"automaton   {states} states")
    print(f"min tokens  {facts['min_tokens']} ({facts['model']})")
    print(f"shortest    {facts['shortest']}")
    print(f"forced      {forced} of its {tokens} tokens, {share:.0%}")
