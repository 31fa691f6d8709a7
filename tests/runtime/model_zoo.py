"""Tiny randomly initialised models of many architectures, and plain transformers beside them."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
import transformers

VOCAB = 101
CONTEXT = 64

_SMALL: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    # Ten times the usual: at 0.02 the scores are so flat that a wrong mask hardly shows.
    "initializer_range": 0.2,
}
_ALTERNATE = ["sliding_attention", "full_attention"]
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT, "vocab_size": VOCAB}

_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}

ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"attention_bias": True}),
    "llama3_rope": ("LlamaConfig", {"rope_parameters": _LLAMA3_ROPE}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "mistral": ("MistralConfig", {"sliding_window": 5, "head_dim": 8}),
    "gemma2": (
        "Gemma2Config",
        {
            "sliding_window": 5,
            "head_dim": 8,
            "layer_types": _ALTERNATE,
            "attn_logit_softcapping": 3.0,
        },
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {"sliding_window": 5, "head_dim": 8, "layer_types": _ALTERNATE},
    ),
    "phi3": ("Phi3Config", {}),
    "smollm3": ("SmolLM3Config", {"no_rope_layers": [1, 0]}),
    "olmo2": ("Olmo2Config", {}),
    "gpt2": ("GPT2Config", {**_GPT2, "initializer_range": 0.2}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8},
    ),
    "gpt_oss": (
        "GptOssConfig",
        {
            "sliding_window": 5,
            "head_dim": 8,
            "layer_types": _ALTERNATE,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
        },
    ),
}


def config_of(name: str, **changes: Any) -> Any:
    """A fresh configuration of the named architecture."""
    class_name, own = ARCHITECTURES[name]
    base = {} if name == "gpt2" else _SMALL
    return getattr(transformers, class_name)(**copy.deepcopy({**base, **own, **changes}))


def build(config: Any, seed: int = 0) -> Any:
    """A float32 model of random weights; the same weights for the same configuration and seed."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():
        if parameter.ndim == 1:  # biases start at 0 and norms at 1, which would hide mistakes
            parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return model.float().eval()


@cache
def plain(name: str) -> Any:
    """The plain transformers model of an architecture, to compare with. Not to be changed."""
    return build(config_of(name))


def eager_logits(model: Any, tokens: list[int]) -> torch.Tensor:
    """[len(tokens), vocab] by the model's own forward, in one piece, without a cache."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
