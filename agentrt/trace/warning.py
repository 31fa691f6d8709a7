"""Warnings of what is not recorded or shown as asked for; they never end a program."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress


def warn(message: str) -> None:
    """A warning; on stderr where warnings are errors, since a record must not change a run."""
    try:
        warnings.warn(message, stacklevel=3)
    except Warning:
        with suppress(Exception):  # closed, or not there, as in a program without a console
            print(f"agentrt: {message}", file=sys.stderr)
