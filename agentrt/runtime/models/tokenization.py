"""What a converted model keeps of its tokenizer: the fast tokenizer, its templates, its end tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gguf
import transformers
from tokenizers import pre_tokenizers

from agentrt.errors import UnsupportedModel

if TYPE_CHECKING:
    from pathlib import Path

DIGIT_BY_DIGIT = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
"""Values of GGUF's `tokenizer.ggml.pre` whose vocabularies were trained with every digit apart
before GPT-2's split. transformers reads them as GPT-2's split alone, which tells "  2" from
what the model saw."""


def ready_tokenizer(folder: Path, gguf_file: str | None, arguments: dict[str, Any]) -> Any:
    """transformers' fast tokenizer of the source. Raises UnsupportedModel if it has none."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **arguments)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UnsupportedModel(
            f"the tokenizer of {folder} ({type(tokenizer).__name__}) has no tokenizer.json form"
        )
    if gguf_file and _pre_tokenizer(folder / gguf_file) in DIGIT_BY_DIGIT:
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    return tokenizer


def templates_of(tokenizer: Any) -> dict[str, str]:
    """Chat templates by name; empty for a model without one."""
    template = tokenizer.chat_template
    if template is None:
        return {}
    return {"default": template} if isinstance(template, str) else dict(template)


def eos_token_ids(
    model: Any,
    tokenizer: Any,
    tokenizer_file: Path,
    templates: dict[str, str],
    special: dict[str, str],
) -> list[int]:
    """Every id that ends a generation: as configured, and what the template ends a turn with."""
    from agentrt.runtime.chat import ChatTemplate
    from agentrt.runtime.tokenizer import Tokenizer

    ids: set[int] = set()
    for told in (
        model.generation_config.eos_token_id,
        model.config.get_text_config().eos_token_id,
        tokenizer.eos_token_id,
    ):
        ids.update(told if isinstance(told, list) else [] if told is None else [told])
    plain = Tokenizer.from_file(tokenizer_file)
    end = ChatTemplate(plain, templates, special_tokens=special).end_of_turn()
    return sorted(ids if end is None else {*ids, end})


def _pre_tokenizer(path: Path) -> str | None:
    field = gguf.GGUFReader(path).get_field("tokenizer.ggml.pre")
    return None if field is None else str(field.contents())
