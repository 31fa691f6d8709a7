"""What is known of one span: its texts token by token, its attributes, its events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from rich.console import Group
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from agentrt.trace import attributes as names
from agentrt.trace.viewer.span_text import GENERATING
from agentrt.trace.viewer.token_text import (
    STYLES,
    Piece,
    alternatives,
    legend,
    pieces,
    tokens_text,
)
from agentrt.trace.viewer.words import STATUS_STYLES, harmless, lasted, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType
    from textual.app import ComposeResult

    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import SpanRow
    from agentrt.trace.spans import Value

_LONGEST = 20_000
"""Characters shown of one attribute."""
_ABOVE_TOKENS = 3
_MARGIN = 6
"""Lines kept between a chosen token and the edge, which the panel of choices covers."""
_HIDDEN = {
    names.PROMPT_IDS,
    names.PROMPT_TEXT,
    names.TOKEN_IDS,
    names.TOKEN_KINDS,
    names.TOKEN_TOP,
    names.TOKEN_LOGPROBS,
    names.PROMPT_LOGPROBS,
    names.OUTPUT_TEXT,
}
"""Attributes that the token view says better."""


class Detail(VerticalScroll, can_focus=True):
    """A span in full. Left and right walk through the tokens of a generation's output."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "token(1)", "next token"),
        Binding("left,h", "token(-1)", "previous token"),
    ]

    def __init__(self, run: RecordedRun, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._run = run
        self._span: SpanRow | None = None
        self._pieces: list[Piece] = []
        self._cursor: int | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="choices")
        yield Static(id="body")

    def show(self, span: SpanRow) -> None:
        """Shows a span, from its beginning."""
        self._span, self._cursor = span, None
        is_generation = span.kind in GENERATING
        self._pieces = pieces(self._run, span.id) if is_generation else []
        self.scroll_home(animate=False)
        self._draw()

    def action_token(self, by: int) -> None:
        """Goes on to the next or previous token; the first is that where the output begins."""
        if not self._pieces:
            return
        if self._cursor is None:
            first = next((i for i, p in enumerate(self._pieces) if not p.in_prompt), 0)
            self._cursor = first if by > 0 else max(0, first - 1)
        else:
            self._cursor = max(0, min(self._cursor + by, len(self._pieces) - 1))
        self._draw()
        self.call_after_refresh(self._scroll_to_token)

    def _scroll_to_token(self) -> None:
        """Brings the chosen token onto the screen, with some of what comes before it."""
        body = self.query_one("#body", Static)
        before = tokens_text(self._pieces[: self._cursor])
        lines = len(before.wrap(self.app.console, max(1, body.size.width)))
        line = lines + _ABOVE_TOKENS
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if not top + _MARGIN <= line < top + height - _MARGIN:
            self.scroll_to(y=max(0, line - height // 2), animate=False)

    def _draw(self) -> None:
        span = self._span
        if span is None:
            return
        chosen = None if self._cursor is None else self._pieces[self._cursor]
        choices = self.query_one("#choices", Static)
        choices.display = chosen is not None
        if chosen is not None:
            choices.update(_choices(self._run, span.id, chosen))
        self.query_one("#body", Static).update(Group(*self._parts(span)))

    def _parts(self, span: SpanRow) -> list[RenderableType]:
        took = "" if span.duration_s is None else lasted(span.duration_s)
        parts: list[RenderableType] = [
            Text.assemble(
                (one_line(span.name), "bold"),
                f"  {span.kind} {span.id}  ",
                (span.status.value, STATUS_STYLES[span.status]),
                f"  {took}",
            )
        ]
        if self._pieces:
            parts += [legend(self._pieces), Text("")]
            parts += [tokens_text(self._pieces, cursor=self._cursor), Text("")]
        elif span.kind in GENERATING:
            parts += _plain_texts(self._run, span.id)
        parts += _attributes(self._run.attributes(span.id, large=True))
        for event in self._run.events(span.id):
            at = lasted((event.at_ns - span.started_ns) / 1e9)
            parts.append(Text.assemble((f"+{at} ", "dim"), (event.name, "cyan")))
            parts += _attributes(event.attributes)
        return parts


def _choices(run: RecordedRun, span_id: int, piece: Piece) -> Text:
    """One token, and what else could have stood there."""
    token = piece.token
    text = Text.assemble(
        (repr(token.text.decode("utf-8", "replace")), "bold"),
        f"  id {token.id}  ",
        (piece.origin.value, STYLES[piece.origin]),
    )
    found = alternatives(run, span_id, piece)
    for other, score, is_chosen in found:
        share = 10 ** (score / 2.302585092994046)
        line = f"\n {'>' if is_chosen else ' '} {100 * share:5.1f}%  {harmless(repr(other))}"
        text.append(line, "bold" if is_chosen else "")
    if not found:
        text.append("\n (no alternatives recorded: ask for top_logprobs)", "dim")
    return text


def _plain_texts(run: RecordedRun, span_id: int) -> list[RenderableType]:
    prompt, output = run.texts.prompt(span_id), run.texts.output(span_id)
    if prompt is None and output is None:
        return [Text("(texts are not recorded)", "dim")]
    return [Text(harmless(prompt or ""), "dim"), Text(harmless(output or "")), Text("")]


def _attributes(values: Mapping[str, Value]) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for key in sorted(values.keys() - _HIDDEN):
        value = values[key]
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        cut = " ..." if len(shown) > _LONGEST else ""
        lines.append(Text.assemble((f"{key} ", "cyan"), harmless(shown[:_LONGEST]) + cut))
    return lines
