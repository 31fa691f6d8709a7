"""The provided model in the forms that other engines read."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from agentrt.runtime.models import cache_dir, resolve


def gguf_file() -> Path:
    """The provided model as it was fetched, 4-bit blocks and all."""
    resolve(None)
    return next((cache_dir() / "downloads").glob("*.gguf"))


@cache
def tokenizer() -> Any:
    """transformers' tokenizer of the provided model."""
    from transformers import PreTrainedTokenizerFast

    files = resolve(None)
    return PreTrainedTokenizerFast(
        tokenizer_file=str(files.tokenizer), eos_token="<|im_end|>", pad_token="<|im_end|>"
    )


def transformers_folder() -> Path:
    """A folder that transformers' `from_pretrained` reads: full floats and the tokenizer."""
    files = resolve(None)
    folder = cache_dir() / "peers" / "transformers"
    if not (folder / "tokenizer_config.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        for source in (*files.weights, files.folder / "config.json"):
            name = "model.safetensors" if source in files.weights else source.name
            (folder / name).unlink(missing_ok=True)
            os.symlink(source, folder / name)
        tokenizer().save_pretrained(folder)
        template = files.chat_templates.get("default")
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(
            json.dumps({**settings, "chat_template": template})
        )
    return folder


def openvino_folder() -> Path:
    """The int8 export (docs/benchmarks.md says how it is made)."""
    return Path(os.environ.get("AGENTRT_OPENVINO", cache_dir() / "peers" / "openvino-int8"))


def likeliest(logits: list[Any], targets: list[list[int]]) -> int:
    """The choice of the greatest mean log-probability; `logits` has a row for each target."""
    scores: list[float] = []
    for rows, tokens in zip(logits, targets, strict=True):
        floats = np.asarray(rows, np.float64)
        top = floats.max(-1, keepdims=True)
        logprobs = floats - top - np.log(np.exp(floats - top).sum(-1, keepdims=True))
        scores.append(float(logprobs[np.arange(len(tokens)), tokens].mean()))
    return int(np.argmax(scores))
