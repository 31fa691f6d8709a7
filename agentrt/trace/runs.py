"""The recorded runs there are, and how one is opened."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.errors import InvalidRequest
from agentrt.trace.config import resolve
from agentrt.trace.files import remove, run_files
from agentrt.trace.reading import RecordedRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.trace.records import RunInfo

_NONE = "no run is recorded in {}; run a program first, or name the folder that its run went to"


def list_runs(folder: str | Path | None = None) -> Iterator[RunInfo]:
    """The recorded runs, the newest first, each read when it is asked for.

    Files that cannot be read as runs are left out. `folder` None is where runs are recorded.
    """
    for path in run_files(_folder(folder)):
        try:
            with RecordedRun(path) as run:
                info = run.info()
        except InvalidRequest:
            continue  # not ours, damaged, or removed meanwhile
        yield info


def latest_run(folder: str | Path | None = None) -> RecordedRun:
    """The newest recorded run, open. Raises InvalidRequest where there is none."""
    for info in islice(list_runs(folder), 1):
        return RecordedRun(info.path)
    raise InvalidRequest(_NONE.format(_folder(folder)))


def open_run(run: str | Path, folder: str | Path | None = None) -> RecordedRun:
    """A recorded run by its id, the beginning of it, or the path of its file; "latest" is the
    newest. Raises InvalidRequest where it is not there, or is not the only one so called."""
    if isinstance(run, Path) or run.endswith(".sqlite"):
        return RecordedRun(Path(run))
    if run == "latest":
        return latest_run(folder)
    place = _folder(folder)
    files = run_files(place)
    named = [path for path in files if path.stem.startswith(run)]
    exact = [path for path in named if path.stem == run]
    if not files:
        raise InvalidRequest(_NONE.format(place))
    if not named:
        some = ", ".join(path.stem for path in files[:3])
        raise InvalidRequest(f"no run {run!r} in {place}; the newest there are {some}")
    if len(named) > 1 and not exact:
        some = ", ".join(path.stem for path in named[:3])
        raise InvalidRequest(f"{len(named)} runs are called {run!r}...: {some}; give more of it")
    return RecordedRun((exact or named)[0])


def delete_run(run: str | Path, folder: str | Path | None = None) -> None:
    """Deletes a recorded run. Raises InvalidRequest where it is not there."""
    with open_run(run, folder) as found:
        path = found.path
    remove(path)


def _folder(folder: str | Path | None) -> Path:
    return Path(folder) if folder is not None else resolve().place
