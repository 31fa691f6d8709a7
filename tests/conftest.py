"""Shared fixtures."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Async tests marked `anyio` run under both."""
    return request.param


@pytest.fixture(autouse=True)
def no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests leave no runs in the user's data folder; those of recording name a folder."""
    monkeypatch.setenv("AGENTRT_TRACE", "off")
