"""What every recipe needs: a model to run on, text out of HTML, and the usage line at the end."""

from __future__ import annotations

import argparse
import time
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from agentrt import Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

console = Console(highlight=False)
DATA = Path(__file__).parent / "data"


def arguments(doc: str | None, **defaults: Any) -> argparse.Namespace:
    """`--model`, and one option for each default given, of its type."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file")
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()


@asynccontextmanager
async def opened(model: str | None) -> AsyncGenerator[Runtime]:
    """A runtime, and at the end a line that says what it took."""
    async with Runtime(model) as runtime:
        began = time.monotonic()
        yield runtime
        seconds = time.monotonic() - began
        stats = runtime.stats()
        usage = stats.usage
        console.print(
            f"[dim]{runtime.model_name}: {usage.prompt_tokens} prompt tokens "
            f"({usage.cached_tokens} cached), {usage.output_tokens} written "
            f"({usage.forced_tokens} forced), {stats.computed_tokens} computed, {seconds:.1f} s[/]"
        )


class _Text(HTMLParser):
    """The text of a page, one line for each block."""

    BLOCKS = frozenset(("p", "div", "li", "tr", "h1", "h2", "h3", "br", "table", "ul", "aside"))
    SKIPPED = frozenset(("script", "style", "title", "nav", "footer", "button"))

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipping = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the signature of HTMLParser
        self._skipping += tag in self.SKIPPED
        self.parts.append("\n" if tag in self.BLOCKS else " ")

    def handle_endtag(self, tag: str) -> None:
        self._skipping -= tag in self.SKIPPED and self._skipping > 0
        self.parts.append("\n" if tag in self.BLOCKS else " ")

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self.parts.append(data)


def text_of(page: Path | str) -> str:
    """What a person would read on an HTML page."""
    reader = _Text()
    reader.feed(page.read_text(encoding="utf-8") if isinstance(page, Path) else page)
    lines = (" ".join(line.split()) for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line)
