"""What a converted model keeps of its tokenizer: its fast form, its templates, its end tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import transformers
from tokenizers import pre_tokenizers

from agentrt.errors import UnsupportedModel
from agentrt.runtime.chat import ChatTemplate
from agentrt.runtime.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import gguf

AUTO: Any = transformers.AutoTokenizer
DIGIT_BY_DIGIT = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}


def fast_tokenizer(folder: Path, arguments: dict[str, Any]) -> Any:
    """transformers' tokenizer of a source. Raises UnsupportedModel if it has no fast form."""
    # A GGUF file is all there is to its tokenizer: choosing a class by the config, as AutoTokenizer
    # does, would parse the file once more, for seconds.
    loader = transformers.PreTrainedTokenizerFast if "gguf_file" in arguments else AUTO
    tokenizer: Any = loader.from_pretrained(folder, **arguments)
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise UnsupportedModel(
            f"the tokenizer of {folder} ({type(tokenizer).__name__}) has no tokenizer.json form"
        )
    return tokenizer


def digit_by_digit(tokenizer: Any, reader: gguf.GGUFReader) -> None:
    """Splits every digit off before GPT-2's pattern, where a GGUF file says that its model did.

    transformers takes those files' `tokenizer.ggml.pre` for GPT-2's pattern alone, which cuts two
    spaces before a digit into other tokens than the model was trained on.
    """
    field = reader.get_field("tokenizer.ggml.pre")
    if field is not None and field.contents() in DIGIT_BY_DIGIT:
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )


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
    templates: Mapping[str, str],
    special_tokens: Mapping[str, str],
) -> list[int]:
    """Every id that ends a generation: as configured, and what the template ends a turn with."""
    ids: set[int] = set()
    for told in (
        model.generation_config.eos_token_id,
        model.config.get_text_config().eos_token_id,
        tokenizer.eos_token_id,
    ):
        ids.update(told if isinstance(told, list) else [] if told is None else [told])
    plain = Tokenizer.from_file(tokenizer_file)
    end = ChatTemplate(plain, templates, special_tokens=special_tokens).end_of_turn()
    return sorted(ids if end is None else {*ids, end})
