"""Keeps transformers from talking over what we show a person who waits."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from transformers.utils import logging as bars

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def without_bars() -> Generator[None]:
    """Keeps transformers' own progress bars from mixing with ours."""
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()
