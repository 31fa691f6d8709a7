"""`agentrt schema`: what a type compiles to for a model, or why it cannot be enforced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.commands.common import add_json, add_model, load_type, print_json

if TYPE_CHECKING:
    import argparse


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
    from agentrt.errors import SchemaError

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
    from agentrt.schema.survey import survey
    from agentrt.schema.view import regex_view

    schema = kind if isinstance(kind, dict) else schema_of(kind)
    files = resolve(model)
    grammar = compile_schema(kind, ModelCodec(files).vocabulary)
    found = survey(grammar)
    return {
        "model": files.name,
        "fields": describe(schema),
        "regex": regex_view(schema),
        "states": found.states,
        "all_states": found.is_whole,
        "min_tokens": grammar.min_tokens,
        "shortest": found.shortest,
        "shortest_tokens": found.tokens,
        "shortest_forced": found.forced,
        "schema": schema,
    }


def _show(facts: dict[str, Any]) -> None:
    states = f"{facts['states']}" if facts["all_states"] else f"more than {facts['states']}"
    forced, tokens = facts["shortest_forced"], facts["shortest_tokens"]
    share = forced / max(tokens, 1)
    if facts["fields"]:
        print(facts["fields"])
    print(f"regex       {facts['regex'] or 'none to be read: it holds free text, lists or bounds'}")
    print(f"automaton   {states} states")
    print(f"min tokens  {facts['min_tokens']} ({facts['model']})")
    print(f"shortest    {facts['shortest']}")
    print(f"forced      {forced} of its {tokens} tokens, {share:.0%}")
