"""Tiny models on disk, random but whole: a transformers folder, and a quantised GGUF file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Kind
from gguf.quants import quantize

from tests.runtime import made

HIDDEN, HEADS, KV_HEADS, LAYERS, MLP = 64, 4, 2, 2, 96


def llama_config(vocab_size: int, **more: Any) -> transformers.LlamaConfig:
    return transformers.LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=HIDDEN,
        intermediate_size=MLP,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=128,
        bos_token_id=0,
        eos_token_id=1,
        **more,
    )


def fast_tokenizer() -> Any:
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made.byte_level(), bos_token="<|start|>", eos_token="<|end|>"
    )
    tokenizer.chat_template = made.TEMPLATE
    return tokenizer


def write_folder(folder: Path, *, dtype: torch.dtype = torch.float32, **save: Any) -> Any:
    """Saves a tiny Llama with its tokenizer; returns the model."""
    torch.manual_seed(0)
    tokenizer = fast_tokenizer()
    model = transformers.LlamaForCausalLM(llama_config(len(tokenizer))).to(dtype).eval()
    model.save_pretrained(folder, **save)
    tokenizer.save_pretrained(folder)
    return model


def write_gguf(path: Path, *, architecture: str = "llama", tied: bool = True) -> None:
    """A Llama in Q4_1 with a Q8_0 embedding, a Q4_0 value projection and a GPT-2 tokenizer."""
    random = np.random.default_rng(3)
    backend = made.byte_level()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(backend.get_vocab_size())
    _add_tokenizer(writer, backend)

    def add(name: str, n: int, kind: Kind) -> None:
        weight = random.normal(size=(n, MLP if "down" in name else HIDDEN), scale=0.1)
        packed = quantize(weight.astype(np.float32), kind)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=kind)

    def add_norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, np.float32))

    add("token_embd", backend.get_vocab_size(), Kind.Q8_0)
    for layer in range(LAYERS):
        at = f"blk.{layer}"
        add(f"{at}.attn_q", HIDDEN, Kind.Q4_1)
        add(f"{at}.attn_k", HIDDEN * KV_HEADS // HEADS, Kind.Q4_1)
        add(f"{at}.attn_v", HIDDEN * KV_HEADS // HEADS, Kind.Q4_0)
        add(f"{at}.attn_output", HIDDEN, Kind.Q4_1)
        add(f"{at}.ffn_gate", MLP, Kind.Q4_1)
        add(f"{at}.ffn_up", MLP, Kind.Q4_1)
        add(f"{at}.ffn_down", HIDDEN, Kind.F32)
        add_norm(f"{at}.attn_norm")
        add_norm(f"{at}.ffn_norm")
    add_norm("output_norm")
    if not tied:
        add("output", backend.get_vocab_size(), Kind.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, backend: Any) -> None:
    whole = json.loads(backend.to_str())
    vocab = backend.get_vocab(with_added_tokens=True)
    tokens = sorted(vocab, key=lambda token: vocab[token])
    special = {token["content"] for token in whole["added_tokens"] if token["special"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in whole["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_chat_template(made.TEMPLATE)
