"""The provided model as transformers runs it by itself: fp32, its own attention."""

from __future__ import annotations

from typing import Any

from agentrt.runtime.models import resolve


def reference_model() -> Any:
    """The transformers module with the weights that agentrt serves."""
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM

    files = resolve(None)
    config = AutoConfig.from_pretrained(files.folder)
    state = {name: t for path in files.weights for name, t in load_file(path).items()}
    kind = AutoModelForCausalLM._model_mapping[type(config)]
    return kind.from_pretrained(None, config=config, state_dict=state, dtype="float32").eval()
