"""A stored model is loaded by transformers once, and by what was recorded ever after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from agentrt.runtime import preparation
from agentrt.runtime.model import NotCapturable
from agentrt.runtime.models import ModelFiles, resolve
from agentrt.runtime.preparation import load_plain
from tests.runtime.decoding import Driver, Sequence
from tests.runtime.model_zoo import eager_logits
from tests.runtime.models import tiny

CPU = torch.device("cpu")


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ModelFiles, Any]:
    """A converted model, and the transformers module it was made of."""
    monkeypatch.setenv("AGENTRT_CACHE_DIR", str(tmp_path / "cache"))
    module = tiny.write_folder(tmp_path / "model")
    return resolve(tmp_path / "model"), module


def check_logits(files: ModelFiles, module: Any) -> None:
    model = load_plain(files, dtype=torch.float32, device=CPU)
    sequence = Sequence([9, 8, 7, 6, 5])
    Driver(model).step((sequence, 5))
    wanted = eager_logits(module, sequence.tokens)
    torch.testing.assert_close(sequence.all_logits(), wanted, atol=1e-4, rtol=0)


def test_the_second_load_needs_no_transformers(
    stored: tuple[ModelFiles, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_logits(*stored)
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", None)
    check_logits(*stored)


def test_what_cannot_be_recorded_is_loaded_by_transformers_every_time(
    stored: tuple[ModelFiles, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(module: Any, *, name: str) -> Any:
        raise NotCapturable("it looks at the value of a tensor")

    monkeypatch.setattr(preparation, "record", refuse)
    check_logits(*stored)
    check_logits(*stored)


def test_transformers_shows_no_bar_of_its_own(
    stored: tuple[ModelFiles, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    transformers.utils.logging.enable_progress_bar()
    load_plain(stored[0], dtype=torch.float32, device=CPU)
    assert "%" not in capfd.readouterr().err
    assert transformers.utils.logging.is_progress_bar_enabled()
