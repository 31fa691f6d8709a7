"""A recorded run in the forms of others: JSON lines, HTML, Chrome's traces, OTLP, pictures."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from agentrt.errors import InvalidRequest
from agentrt.trace.export.chrome import chrome
from agentrt.trace.export.html import html
from agentrt.trace.export.jsonl import jsonl
from agentrt.trace.export.otlp import send
from agentrt.trace.export.svg import png, tree_svg, waterfall_svg

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentrt.trace.reading import RecordedRun


class Form(StrEnum):
    """What a run can be exported as."""

    JSONL = "jsonl"
    HTML = "html"
    CHROME = "chrome"
    OTLP = "otlp"
    SVG = "svg"
    PNG = "png"


def exported(run: RecordedRun, form: Form, *, picture: str = "tree") -> Iterable[bytes]:
    """A run as the bytes of a file, piece by piece; `picture` is tree or waterfall.

    Raises InvalidRequest for OTLP, which is sent, not written.
    """
    if form is Form.OTLP:
        raise InvalidRequest("OTLP goes to a collector, not to a file; use `send(run, endpoint)`")
    if form is Form.PNG:
        return [png(_drawn(run, picture))]
    return (piece.encode() for piece in _texts(run, form, picture))


def _texts(run: RecordedRun, form: Form, picture: str) -> Iterator[str]:
    if form is Form.JSONL:
        yield from jsonl(run)
    elif form is Form.CHROME:
        yield from chrome(run)
    else:
        yield html(run) if form is Form.HTML else _drawn(run, picture)


def _drawn(run: RecordedRun, picture: str) -> str:
    return waterfall_svg(run) if picture == "waterfall" else tree_svg(run)


__all__ = ["Form", "exported", "send"]
