"""What a converted model consists of on disk."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agentrt.errors import AgentrtError, ModelCorrupt

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

FACTS = "model.json"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
WEIGHTS = "weights.safetensors"
BLOCKS = "blocks.safetensors"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model ready to be loaded without converting anything.

    `folder` is this model's own folder in the cache and the place for anything derived from it.
    `weights` are safetensors files whose tensor names, shapes and values are those of the
    transformers module of `config`; tied tensors are stored once. `blocks`, where the source was
    quantised, holds for a linear weight NAME the tensors NAME.q (uint8 or int8 [N, K]), NAME.d
    (fp16 [N, K / 32]) and, beside uint8 quants, NAME.m (fp16 [N, K / 32]): w = d q + m, exactly.
    `dtype` is the weights' ("float32", "bfloat16", "float16"). `special_tokens` maps the roles
    templates refer to ("bos_token", ...) to token texts; `chat_templates` maps names to Jinja
    sources, "default" first among them.
    """

    name: str
    folder: Path
    config: Path
    tokenizer: Path
    weights: tuple[Path, ...]
    blocks: Path | None
    dtype: str
    context_length: int
    eos_token_ids: tuple[int, ...]
    special_tokens: Mapping[str, str]
    chat_templates: Mapping[str, str]


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Raises ModelCorrupt, with what to do, where a stored file is not what was written.

    A start compares sizes only, so damage of the same size is first seen by who reads the file; and
    libraries raise about anything over it.
    """
    try:
        yield
    except (AgentrtError, MemoryError):
        raise
    except Exception as error:
        raise ModelCorrupt(
            f"{path} cannot be read ({error}); `agentrt models pull`, with the "
            "model's name if it is not the provided one, checks what is stored and mends it"
        ) from error


def load_files(folder: Path) -> ModelFiles:
    """Reads what `write_facts` wrote into a converted model's folder. Raises ModelCorrupt."""
    with reading(folder / FACTS):
        return _load_files(folder)


def _load_files(folder: Path) -> ModelFiles:
    facts = cast("dict[str, Any]", json.loads((folder / FACTS).read_text(encoding="utf-8")))
    blocks = folder / BLOCKS
    return ModelFiles(
        name=facts["name"],
        folder=folder,
        config=folder / CONFIG,
        tokenizer=folder / TOKENIZER,
        # Absolute where the source's own files serve as they are.
        weights=tuple(folder / path for path in facts["weights"]),
        blocks=blocks if blocks.exists() else None,
        dtype=facts["dtype"],
        context_length=facts["context_length"],
        eos_token_ids=tuple(facts["eos_token_ids"]),
        special_tokens=facts["special_tokens"],
        chat_templates=facts["chat_templates"],
    )


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """Writes the part of ModelFiles that no other file of the folder says."""
    text = json.dumps(facts, indent=1, ensure_ascii=False)
    (folder / FACTS).write_text(text, encoding="utf-8")
