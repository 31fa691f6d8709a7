"""The run that this process records, shared by every runtime that is open meanwhile."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.errors import InvalidRequest
from agentrt.trace.attributes import RUN_COMMAND
from agentrt.trace.config import TraceConfig, resolve
from agentrt.trace.recorder import Recorder
from agentrt.trace.spans import (
    SpanKind,
    add_sink,
    adopt_orphans,
    forget_everything,
    inside,
    remove_sink,
    start_span,
)
from agentrt.trace.warning import warn

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_guard = threading.Lock()
_active: Recording | None = None
_started_as: tuple[str, list[str]] | None = None


class Recording:
    """A run being recorded. Whoever has joined it leaves it again; the last one ends it."""

    def __init__(self, config: TraceConfig, name: str | None) -> None:
        folder = config.place  # first: where there is none, nobody is told of a run
        self.config = config
        self.span = start_span(SpanKind.RUN, name or _what_runs()[0], is_root=True)
        self.recorder = Recorder(self.span, config, folder)
        self.users = 0
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Recording {self.run_id} users {self.users}>"

    @property
    def run_id(self) -> str:
        return self.span.run_id

    @property
    def path(self) -> Path:
        """The file; it is there once there is something in it."""
        return self.recorder.path

    def flush(self) -> None:
        """Stores what has happened up to now. Blocking."""
        self.recorder.flush()


def current_recording() -> Recording | None:
    """The run that is being recorded in this process, if one is."""
    return _active


def join(option: bool | TraceConfig | None = None, *, name: str | None = None) -> Recording | None:
    """Joins the run being recorded, or starts one. None where recording is off. Blocking.

    Where it is on and cannot be, for what the environment says, that is warned of, and None.
    Raises InvalidRequest when a run is being recorded with other options than a TraceConfig that is
    given here.
    """
    global _active
    with _guard:
        if _active is None:
            _active = _begun(option, name)
            if _active is None:
                return None
        elif option is False:
            return None
        elif isinstance(option, TraceConfig) and option != _active.config:
            raise InvalidRequest(
                "a run is being recorded in this process with other trace options; give all of its "
                "runtimes the same ones, or set them once by agentrt.trace.configure(...)"
            )
        _active.users += 1
        return _active


def leave(recording: Recording, error: BaseException | None = None) -> None:
    """Leaves a run that was joined, with what went wrong; the last one out ends it. Blocking."""
    global _active
    with _guard:
        recording.error = recording.error or error
        recording.users -= 1
        if recording.users:
            return
        if _active is recording:
            _active = None
            adopt_orphans(None)
        recording.span.end(recording.error)
        remove_sink(recording.recorder)
    recording.recorder.close()


@contextmanager
def recording(
    option: bool | TraceConfig | None = None, *, name: str | None = None
) -> Generator[Recording | None]:
    """Records what happens in the block as one run, the runtimes opened in it included.

    Yields None where recording is off. Raises what `join` raises.
    """
    joined = join(option, name=name)
    if joined is None:
        yield None
        return
    error: BaseException | None = None
    try:
        with inside(joined.span):
            yield joined
    except BaseException as raised:
        error = raised
        raise
    finally:
        leave(joined, error)


@contextmanager
def started_as(name: str, command: Sequence[str]) -> Generator[None]:
    """What runs begun in the block are called, and were started by: for who runs another's file,
    and changes `sys.argv` for it."""
    global _started_as
    before, _started_as = _started_as, (name, list(command))
    try:
        yield
    finally:
        _started_as = before


def _what_runs() -> tuple[str, list[str]]:
    return _started_as or (_script(), list(sys.argv))


def _begun(option: bool | TraceConfig | None, name: str | None) -> Recording | None:
    try:
        config = resolve(option)
        return _started(config, name) if config.enabled else None
    except (InvalidRequest, OSError, RuntimeError) as error:  # of a folder, or of a thread
        warn(f"this run is not recorded: {error}")
        return None


def _started(config: TraceConfig, name: str | None) -> Recording:
    started = Recording(config, name)
    started.recorder.start()  # first: where no thread can be had, nobody was told of the run
    add_sink(started.recorder)
    started.span.set({RUN_COMMAND: _what_runs()[1]})
    adopt_orphans(started.span)
    return started


def _script() -> str:
    """What runs: the script, the module given by -m, or what `agentrt` was asked for."""
    path = Path(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.name == "__main__.py" else path.stem
    if name == "agentrt":
        name = next((word for word in sys.argv[1:] if not word.startswith("-")), name)
    return name if name not in {"", "-", "-c"} else "python"


def _close_at_exit() -> None:
    if _active is not None:
        _active.flush()


def _forked() -> None:
    """In a child process: the thread that writes stayed behind, and so the file is the parent's."""
    global _active, _guard
    _active, _guard = None, threading.Lock()
    forget_everything()


atexit.register(_close_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
