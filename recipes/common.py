"""What every recipe needs: a model to run on, pages as text, and the usage line at the end."""

from __future__ import annotations

import argparse
import time
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from agentrt import Runtime
from agentrt.html import text_of_html
from agentrt.trace import live_view

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from agentrt.trace import LiveView

console = Console(highlight=False)
DATA = Path(__file__).parent / "data"


def arguments(doc: str | None, *, draws: bool = False, **defaults: Any) -> argparse.Namespace:
    """`--model`, `--live` (unless the recipe `draws` itself), and one option for each default."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file")
    if not draws:
        parser.add_argument("--live", action="store_true", help="show programs as they run")
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()


@asynccontextmanager
async def opened(args: argparse.Namespace) -> AsyncGenerator[Runtime]:
    """A runtime as the arguments have it, and at the end a line that says what it took."""
    async with Runtime(args.model) as runtime:
        began = time.monotonic()
        with _watched() if getattr(args, "live", False) else nullcontext():
            yield runtime
        seconds = time.monotonic() - began
        usage = runtime.stats().usage
        console.print(
            f"[dim]{runtime.model_name}: {usage.prompt_tokens} prompt tokens "
            f"({usage.cached_tokens} cached, {usage.computed_tokens} computed), "
            f"{usage.output_tokens} written "
            f"({usage.sampled_tokens} sampled, {usage.forced_tokens} forced), {seconds:.1f} s[/]"
        )


def _watched() -> LiveView:
    """The live view; on the recipe's own console if that is a terminal, so that both fit on it."""
    return live_view(console=console) if console.is_terminal else live_view()


def text_of(page: Path) -> str:
    """What a person would read on an HTML page."""
    return text_of_html(page.read_text(encoding="utf-8"))
