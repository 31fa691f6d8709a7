"""Compiling beside other work: in a thread, stopped when the one who waits is cancelled."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from agentrt.schema.grammar import Grammar
from agentrt.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

G = TypeVar("G", bound=Grammar)


async def compiled_in_thread(compile_with: Callable[..., G]) -> G:
    """The grammar that `compile_with(cancelled=...)` makes, made in a worker thread.

    Pass `functools.partial(compile_schema, schema, vocabulary)`. Cancelling the await stops the
    work at its next check.
    """
    stop = Event()
    try:
        return await in_thread(partial(compile_with, cancelled=stop.is_set), abandon=True)
    finally:
        stop.set()
