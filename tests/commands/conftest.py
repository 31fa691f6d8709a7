"""The command line in this process, over a scripted model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from agentrt.testing import ScriptedModel

Serve = Callable[[str | Callable[[str], str]], None]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Has every runtime that is opened answer with `reply`, whatever model was asked for."""

    def serve(reply: str | Callable[[str], str]) -> None:
        model = ScriptedModel.replying(reply)
        monkeypatch.setattr(
            "agentrt.runtime.runtime.open_model", lambda _model, config: model.open(config)
        )

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
