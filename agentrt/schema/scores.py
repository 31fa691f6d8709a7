"""How sure the model was of each field: log-probabilities by JSON pointer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.errors import InvalidRequest
from agentrt.schema.partial import Span, partial, token_spans

if TYPE_CHECKING:
    from agentrt.generation import Completion
    from agentrt.schema.grammar import Grammar


@dataclass(frozen=True, slots=True)
class FieldScore:
    """One value of a generated text.

    `span` is its place in the text's UTF-8 bytes, `tokens` the output tokens that write some of
    them: the first and the last may write something of what stands before and after. `logprob` is
    the sum over the `chosen` of these tokens that the model chose (natural log, of its own
    distribution); the others were forced, and are certain.
    """

    span: Span
    tokens: range
    logprob: float
    chosen: int

    @property
    def mean_logprob(self) -> float:
        """For each chosen token; 0.0, which is certain, where there was nothing to choose."""
        return self.logprob / self.chosen if self.chosen else 0.0


def field_scores(completion: Completion, grammar: Grammar) -> dict[str, FieldScore]:
    """The score of every complete value of a completion, containers included, by JSON pointer.

    "" is the whole value. A text that is not JSON (of a regex, of choices) is one value. Raises
    InvalidRequest for a completion without log-probabilities or a grammar without a vocabulary.
    """
    if completion.logprobs is None:
        raise InvalidRequest("the completion has no log-probabilities; generate with logprobs=True")
    if grammar.vocabulary is None:
        raise InvalidRequest("the grammar was compiled without a vocabulary; give it one")
    tokens = grammar.vocabulary.tokens
    pieces = [tokens[i] or b"" for i in completion.token_ids]
    text = b"".join(pieces)
    if grammar.source.kind == "schema":
        spans = partial(text).spans
    else:
        spans = {"": Span(0, len(text))} if text else {}
    found = [entry.logprob for entry in completion.logprobs]
    out: dict[str, FieldScore] = {}
    for pointer, written in token_spans(pieces, spans).items():
        chosen = [p for p in found[written.start : written.stop] if p is not None]
        out[pointer] = FieldScore(spans[pointer], written, sum(chosen), len(chosen))
    return out
