"""How numbers, times and foreign texts are put on a screen."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.trace.spans import SpanStatus

if TYPE_CHECKING:
    from rich.console import Console

_BLANK = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The signs of a screen, each one column wide; nothing is said by colour alone."""

    status: dict[SpanStatus, str]
    tee: str
    corner: str
    bar: str
    full: str
    half: str
    empty: str
    cut: str
    dot: str
    line: str
    closed: str
    opened: str
    """Before what can be unfolded, and what is."""
    levels: str
    """From nothing to full, in nine steps."""


UNICODE = Glyphs(
    status={
        SpanStatus.RUNNING: "●",
        SpanStatus.OK: "✓",
        SpanStatus.ERROR: "✗",
        SpanStatus.CANCELLED: "⊘",
    },
    tee="├ ",
    corner="└ ",
    bar="│ ",
    full="█",
    half="▒",
    empty="░",
    cut="…",
    dot="·",
    line="━",
    closed="▸",
    opened="▾",
    levels=" ▁▂▃▄▅▆▇█",
)
ASCII = Glyphs(
    status={
        SpanStatus.RUNNING: "*",
        SpanStatus.OK: "+",
        SpanStatus.ERROR: "x",
        SpanStatus.CANCELLED: "-",
    },
    tee="|-",
    corner="`-",
    bar="| ",
    full="#",
    half="+",
    empty=".",
    cut="~",
    dot="-",
    line="=",
    closed=">",
    opened="v",
    levels=" .:-=+*%#",
)

# The sixteen colours of the terminal, which its owner chose to be readable on its background.
STATUS_STYLES = {
    SpanStatus.RUNNING: "blue",
    SpanStatus.OK: "green",
    SpanStatus.ERROR: "bold red",
    SpanStatus.CANCELLED: "magenta",
}


def glyphs_for(console: Console) -> Glyphs:
    """The signs that a console can show."""
    try:
        "●├█…▸⊘".encode(console.encoding)
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return UNICODE


def counted(number: float) -> str:
    """A count in at most six characters: 9,999, 12.3k, 1.2M."""
    if number < 9_999.5:
        return f"{number:,.0f}"
    for unit, size in (("k", 1e3), ("M", 1e6)):
        scaled = number / size
        if scaled < 999.5:
            return f"{scaled:.0f}{unit}" if scaled >= 99.95 else f"{scaled:.1f}{unit}"
    return f"{number / 1e9:.1f}G"


def lasted(seconds: float) -> str:
    """A time in at most six characters: 31ms, 4.2s, 42s, 3m05s, 2h03m."""
    if seconds < 0.0995:
        return f"{max(seconds, 0) * 1e3:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 100:
        return f"{hours}h{minutes:02}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02}h" if days < 100 else f"{days}d"


def sized(size: float) -> str:
    """Bytes: 512 B, 3.4 MB."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def share(part: float, whole: float) -> str:
    """A percentage, without one where there is nothing to share."""
    return f"{100 * part / whole:.0f}%" if whole else "-"


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 branch`, `2 branches`."""
    if number == 1:
        return f"1 {noun}"
    ending = "es" if noun.endswith(("s", "ch", "sh", "x")) else "s"
    return f"{counted(number)} {many or noun + ending}"


def one_line(text: str) -> str:
    """A text as one line that cannot do anything to a terminal."""
    return harmless(_BLANK.sub(" ", text))


def harmless(text: str) -> str:
    """A text with its control and formatting characters replaced: none can move a cursor, ring,
    change the direction of writing or set a title. Line feeds stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char in "\n\u200d":  # the joiner makes one emoji of several
        return char
    return "�" if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else char
