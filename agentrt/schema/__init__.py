"""Schemas: any type to an exact automaton over text, and its masks over a vocabulary."""

from agentrt.schema.background import compiled_in_thread
from agentrt.schema.compile import compile_choices, compile_regex, compile_schema
from agentrt.schema.copying.marks import Verbatim, verbatim
from agentrt.schema.grammar import Grammar, fill_masks
from agentrt.schema.limits import CompileCancelled
from agentrt.schema.matcher import GrammarMatcher
from agentrt.schema.partial import MISSING, Missing, Partial, Span, partial, token_spans
from agentrt.schema.scores import FieldScore, field_scores
from agentrt.schema.statistics import GrammarStats
from agentrt.schema.tokens.vocabulary import Vocabulary, from_tokenizer
from agentrt.schema.types import schema_of, validate_text

__all__ = [
    "MISSING",
    "CompileCancelled",
    "FieldScore",
    "Grammar",
    "GrammarMatcher",
    "GrammarStats",
    "Missing",
    "Partial",
    "Span",
    "Verbatim",
    "Vocabulary",
    "compile_choices",
    "compile_regex",
    "compile_schema",
    "compiled_in_thread",
    "field_scores",
    "fill_masks",
    "from_tokenizer",
    "partial",
    "schema_of",
    "token_spans",
    "validate_text",
    "verbatim",
]
