"""What every recipe needs: options, a model, pages as text, one line of usage or of what failed."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from agentrt import AgentrtError, InvalidRequest, Runtime, UsageError
from agentrt.html import text_of_html
from agentrt.trace import live_view

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from agentrt.trace import LiveView

console = Console(highlight=False)
DATA = Path(__file__).parent / "data"


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a recipe. What goes wrong is said in one line, with the exit status that `agentrt` has:
    2 for a mistake in what was asked for, 1 for a run that failed, 130 for an interrupt."""
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except (AgentrtError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)


def count(text: str) -> int:
    """An option that is a whole number, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def words(text: str) -> str:
    """An option that is a text with something in it."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    return text


def file(text: str) -> Path:
    """An option that is a file to be read."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return Path(text)


def folder(text: str) -> Path:
    """An option that is a folder to be read."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text!r}")
    return Path(text)


def arguments(
    doc: str | None, *, draws: bool = False, **options: tuple[Callable[[str], Any], Any, str]
) -> argparse.Namespace:
    """`--model`, `--live` (unless the recipe `draws` itself), and the recipe's own options: each
    with what reads it, its default, and what it is."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file (the provided one)")
    if not draws:
        parser.add_argument("--live", action="store_true", help="show programs as they run")
    for name, (read, default, what) in options.items():
        shown = f" ({default})" if isinstance(default, int) else ""
        parser.add_argument(f"--{name}", type=read, default=default, help=f"{what}{shown}")
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


def pages_of(folder: Path) -> list[Path]:
    """The HTML pages of a folder, by name. Raises InvalidRequest where there are none."""
    pages = sorted(folder.glob("*.html"))
    if not pages:
        raise InvalidRequest(f"{folder} has no .html pages; name a folder that has some")
    return pages


def text_of(page: Path) -> str:
    """What a person would read on an HTML page. Raises InvalidRequest where it is no text."""
    try:
        return text_of_html(page.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{page} is no UTF-8 text: {error}") from error
