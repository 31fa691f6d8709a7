"""What is recorded, and where to: options of a call, of this process, of the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrt.errors import InvalidRequest

DEFAULT_LIMIT = 1 << 30
_OFF = {"off", "0", "no", "false"}
_ON = {"", "on", "1", "yes", "true"}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


class TraceConfig(BaseModel):
    """How runs are recorded. The defaults are what AGENTRT_TRACE and AGENTRT_TRACE_LIMIT say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    folder: Path | None = None
    """Where the files go, one a run; None is the user's data folder."""
    limit_bytes: int = Field(default=DEFAULT_LIMIT, ge=1 << 16)
    """Size of the folder above which the oldest runs are dropped, as files, whole."""
    content: bool = True
    """Whether what was written is kept: prompts, outputs, arguments, messages of errors, token ids.
    Without it a record holds names, numbers and times."""
    redact: Callable[[str], str] | None = None
    """Is given every text before it is stored and returns what may be. A prompt or output that it
    changes is stored as text only, without its token ids. Called on the threads of the recorder and
    of a live view, which shows no more than is stored."""

    @property
    def place(self) -> Path:
        """The folder that the files of the runs are in, absolute. Raises InvalidRequest where the
        environment names none that can be."""
        return _absolute(self.folder) if self.folder is not None else default_folder()


_configured: TraceConfig | None = None


def configure(**options: Any) -> TraceConfig:
    """Sets the options of every run that starts from now on in this process; the fields of
    :class:`TraceConfig`, on top of what the environment says.

    Raises InvalidRequest for an option that does not exist or makes no sense.
    """
    global _configured
    try:
        given = TraceConfig(**{**_from_environment().model_dump(), **options})
    except ValidationError as error:
        details = error.errors()[0]
        name = ".".join(map(str, details["loc"]))
        raise InvalidRequest(
            f"trace option {name}: {details['msg']}; the options are "
            f"{', '.join(TraceConfig.model_fields)}"
        ) from error
    _configured = given
    return given


def resolve(option: bool | TraceConfig | None = None) -> TraceConfig:
    """What applies where `option` was given: True and False switch recording on and off."""
    if isinstance(option, TraceConfig):
        return option
    base = _configured if _configured is not None else _from_environment()
    return base if option is None else base.model_copy(update={"enabled": option})


def default_folder() -> Path:
    """Where runs are recorded and looked for, unless another folder is named.

    AGENTRT_TRACE where it names one, else `traces` in the user's data folder of the platform.
    """
    named = _named_folder()
    if named is not None:
        return named
    return _absolute(platformdirs.user_data_path("agentrt") / "traces")


def _named_folder() -> Path | None:
    given = os.environ.get("AGENTRT_TRACE", "").strip()
    if given.lower() in _OFF | _ON:
        return None
    try:
        return _absolute(Path(given).expanduser())
    except RuntimeError as error:
        raise InvalidRequest(
            f"AGENTRT_TRACE={given!r} is no folder ({error}); give a path, or off"
        ) from error


def _absolute(folder: Path) -> Path:
    """Once and for all: the program may change where it is."""
    try:
        return folder.absolute()
    except OSError as error:
        raise InvalidRequest(
            f"the trace folder {str(folder)!r} is relative, and the folder this process is in is "
            "gone; give a whole path, or set AGENTRT_TRACE=off"
        ) from error


def _from_environment() -> TraceConfig:
    off = os.environ.get("AGENTRT_TRACE", "").strip().lower() in _OFF
    return TraceConfig(enabled=not off, folder=_named_folder(), limit_bytes=_limit())


def _limit() -> int:
    given = os.environ.get("AGENTRT_TRACE_LIMIT", "").strip()
    if not given:
        return DEFAULT_LIMIT
    size = _SIZE.fullmatch(given)
    if size is None:
        raise InvalidRequest(
            f"AGENTRT_TRACE_LIMIT={given!r} is no size; give bytes, or a number with K, M or G, as "
            "in 512M"
        )
    wanted = float(size[1]) * 1024 ** " kmgt".index(size[2].lower() or " ")
    return max(1 << 16, int(wanted))
