"""The provided model as transformers runs it by itself: fp32, its own attention."""

from __future__ import annotations

from typing import Any

import torch

from agentrt.runtime.models import resolve
from agentrt.runtime.preparation import load_module


def reference_model() -> Any:
    """The transformers module with the weights that agentrt serves."""
    return load_module(resolve(None), torch.float32, attention=None).eval()
