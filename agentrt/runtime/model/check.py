"""Holds a decoder to the model's own eager forward on a few tokens, before it is used.

Discovery reads what layers say they do; this catches what they do besides: a convolution or a
recurrence between tokens, attention that reads more of its module than it passes on, a mask the
model builds by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from agentrt.errors import UnsupportedModel
from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.reference import TorchAttention
from agentrt.runtime.batch import Layout
from agentrt.runtime.model import hook
from agentrt.runtime.model.decoder import forward
from agentrt.runtime.model.discover import close

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from agentrt.runtime.attention.base import AttentionBackend, LayerAttention
    from agentrt.runtime.batch import Int64Array

_LENGTHS = (13, 6)  # tokens of the two sequences that are decoded together
_SPLITS = ((5, 3), (7, 2), (1, 1))  # how many of each a step computes


def check_against_eager(
    step: Callable[[Layout, Int64Array], torch.Tensor],
    attach: Callable[[AttentionBackend], None],
    module: nn.Module,
    layers: Sequence[LayerAttention],
    *,
    name: str,
) -> None:
    """Decodes two sequences in mixed, chunked steps and compares every logit with eager's.

    Raises UnsupportedModel when they differ by more than rounding.
    """
    parameter = next(module.parameters())
    prompts = _prompts(cast("Any", module).get_input_embeddings().weight.shape[0])
    wanted = [_eager_logits(module, prompt) for prompt in prompts]
    slots = sum(_LENGTHS)
    cache = KVCache(layers, num_slots=slots, dtype=parameter.dtype, device=parameter.device)
    attach(TorchAttention(cache))
    done = [0, 0]
    for counts in _SPLITS:
        layout = _layout(prompts, done, counts)
        logits = step(layout, np.arange(layout.num_tokens, dtype=np.int64))
        for sequence, got in enumerate(logits.split(list(counts))):
            start = done[sequence]
            if not close(got, wanted[sequence][start : start + counts[sequence]]):
                raise UnsupportedModel(_refusal(name, module))
        done = [a + b for a, b in zip(done, counts, strict=True)]


def _refusal(name: str, module: nn.Module) -> str:
    return (
        f"{name} ({type(module).__name__}) gives other logits through this runtime than in its own "
        "eager forward: tokens are mixed by something other than the attention it declares "
        "(a recurrence, a convolution, a bias added to the scores). Use a model whose layers "
        "attend through transformers' attention interface alone"
    )


def _prompts(vocab_size: int) -> list[Int64Array]:
    first, second = _LENGTHS
    return [
        (np.arange(first, dtype=np.int64) * 37 + 11) % vocab_size,
        (np.arange(second, dtype=np.int64) * 53 + 2) % vocab_size,
    ]


def _eager_logits(module: nn.Module, prompt: Int64Array) -> torch.Tensor:
    device = next(module.parameters()).device
    positions = torch.arange(len(prompt), device=device)
    cast("Any", module).set_attn_implementation(hook.EAGER)
    try:
        return forward(module, torch.from_numpy(prompt).to(device), positions, positions)
    finally:
        cast("Any", module).set_attn_implementation(hook.RUN)


def _layout(prompts: list[Int64Array], done: list[int], counts: tuple[int, ...]) -> Layout:
    """The next `counts` tokens of each sequence; the slots of the two are interleaved."""
    spans = [(d, d + n) for d, n in zip(done, counts, strict=True)]
    slots = [np.arange(min(_LENGTHS)) * 2, np.arange(min(_LENGTHS)) * 2 + 1]
    slots[0] = np.concatenate([slots[0], np.arange(2 * min(_LENGTHS), sum(_LENGTHS))])
    return Layout(
        token_ids=np.concatenate([p[a:b] for p, (a, b) in zip(prompts, spans, strict=True)]),
        positions=np.concatenate([np.arange(a, b) for a, b in spans]),
        out_slots=np.concatenate([s[a:b] for s, (a, b) in zip(slots, spans, strict=True)]),
        q_indptr=np.cumsum([0, *counts], dtype=np.int32),
        kv_indptr=np.cumsum([0, *(b for _, b in spans)], dtype=np.int32),
        kv_slots=np.concatenate([s[:b] for s, (_, b) in zip(slots, spans, strict=True)]).astype(
            np.int32
        ),
    )
