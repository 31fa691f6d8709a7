"""Where agentrt keeps what it fetches or works out."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from agentrt.errors import StorageError

ELSEWHERE = "set AGENTRT_CACHE_DIR to a folder with room that you can write"


def cache_dir() -> Path:
    """The folder everything fetched, converted or worked out is kept in.

    AGENTRT_CACHE_DIR, else XDG_CACHE_HOME/agentrt, else the platform's own cache folder. Raises
    StorageError for a name that no folder can have.
    """
    if own := os.environ.get("AGENTRT_CACHE_DIR"):
        return _named(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return _named(shared) / "agentrt"
    return platformdirs.user_cache_path("agentrt")


def _named(folder: str) -> Path:
    try:
        path = Path(folder).expanduser().absolute()
        path.exists()  # raises only where the system will not even look
    except (OSError, RuntimeError) as error:
        raise StorageError(f"{folder} is no cache folder ({error}); {ELSEWHERE}") from error
    return path
