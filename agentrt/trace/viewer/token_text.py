"""Prompts and outputs with every token coloured by how it came to be."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rich.text import Text

from agentrt.trace.records import TokenOrigin
from agentrt.trace.spans import SpanKind
from agentrt.trace.viewer.words import harmless

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import Token


class Origin(StrEnum):
    """How a token came to be; REPAIRED is the output of a generation that repairs another's."""

    CACHED = "cached"
    COMPUTED = "computed"
    SAMPLED = "sampled"
    FORCED = "forced"
    REPAIRED = "repaired"


# Colour and something else: what is said must be there without colours as well.
STYLES = {
    Origin.CACHED: "dim cyan",
    Origin.COMPUTED: "blue",
    Origin.SAMPLED: "green",
    Origin.FORCED: "italic magenta",
    Origin.REPAIRED: "bold underline red",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """One token as it is shown. `text` is what it adds to what the tokens before it spell; a token
    that ends within a character adds nothing, the one that completes it adds it whole."""

    token: Token
    origin: Origin
    text: str
    in_prompt: bool


def pieces(run: RecordedRun, span_id: int) -> list[Piece]:
    """Prompt and output of a generation; empty where its tokens are not recorded."""
    output = run.texts.output_tokens(span_id)
    prompt = _spelt(run.texts.prompt_tokens(span_id), in_prompt=True, repaired=False)
    repaired = bool(output) and any(
        span.kind is SpanKind.VALIDATION for span in run.ancestors(span_id)
    )
    return [*prompt, *_spelt(output, in_prompt=False, repaired=repaired)]


def tokens_text(shown: Iterable[Piece], *, cursor: int | None = None) -> Text:
    """The tokens as one text; that at `cursor` stands out."""
    text = Text()
    said, style = "", ""
    for at, piece in enumerate(shown):
        if at == cursor:
            text.append(said, style)
            token = harmless(piece.text).replace("\n", "⏎\n") or "·"
            text.append(token, f"{STYLES[piece.origin]} reverse")
            said = ""
        elif STYLES[piece.origin] == style:
            said += harmless(piece.text)  # one run of a style, not one a token
        else:
            text.append(said, style)
            said, style = harmless(piece.text), STYLES[piece.origin]
    return text.append(said, style)


def legend(shown: Sequence[Piece] | None = None) -> Text:
    """What the colours mean, with how many tokens of each there are."""
    text = Text()
    for origin, style in STYLES.items():
        count = sum(piece.origin is origin for piece in shown) if shown is not None else None
        if count == 0:
            continue
        # Spaces that do not break: a colour stays with its name.
        text.append(f"\u00a0{origin.value}\u00a0", f"{style} reverse")
        text.append(f"\u00a0{count:,}  " if count is not None else "  ")
    text.rstrip()
    return text


def alternatives(run: RecordedRun, span_id: int, piece: Piece) -> list[tuple[str, float, bool]]:
    """What else could have stood in a token's place, likeliest first: text, log-probability, and
    whether it is what stands there. Empty where the generation was not asked for it."""
    generation = run.generation(span_id)
    runtime = None if generation is None else generation.runtime_id
    found = {
        other: (run.texts.spell(runtime, [other]).decode("utf-8", "replace") or f"#{other}", score)
        for other, score in piece.token.top
    }
    if piece.token.logprob is not None:
        found.setdefault(
            piece.token.id, (piece.token.text.decode("utf-8", "replace"), piece.token.logprob)
        )
    ranked = sorted(found.items(), key=lambda item: -item[1][1])
    return [(text, score, other == piece.token.id) for other, (text, score) in ranked]


def _spelt(tokens: Sequence[Token], *, in_prompt: bool, repaired: bool) -> list[Piece]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    out: list[Piece] = []
    for at, token in enumerate(tokens):
        text = decoder.decode(token.text, at == len(tokens) - 1)
        origin = Origin.REPAIRED if repaired else _ORIGINS[token.origin]
        out.append(Piece(token, origin, text, in_prompt))
    return out


_ORIGINS = {origin: Origin(origin.value) for origin in TokenOrigin}
