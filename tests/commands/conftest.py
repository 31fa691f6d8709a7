"""The command line in this process, over a scripted model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentrt.runtime.config import RuntimeConfig
from agentrt.runtime.source import LoadedModel
from agentrt.testing import ScriptedModel

Serve = Callable[[str | Callable[[str], str]], None]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Has every runtime that is opened answer with `reply`, whatever model is asked for by name."""

    def serve(reply: str | Callable[[str], str]) -> None:
        model = ScriptedModel.replying(reply)

        def opened(asked: Any, config: RuntimeConfig) -> LoadedModel:
            return (asked if hasattr(asked, "open") else model).open(config)

        monkeypatch.setattr("agentrt.runtime.runtime.open_model", opened)

    return serve


@pytest.fixture(autouse=True)
def _left_as_it_was() -> Iterator[None]:
    """Commands import files of the user's and look beside them."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name in ("work", "kinds"):
            del sys.modules[name]
