"""Shared fixtures."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# The same examples on every run, and none timed: a change fails on what it changed, not on luck
# or on who else uses the machine. HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Async tests marked `anyio` run under both."""
    return request.param


@pytest.fixture(autouse=True)
def no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests leave no runs in the user's data folder; those of recording name a folder."""
    monkeypatch.setenv("AGENTRT_TRACE", "off")
