"""Holds a decoder to the model's own eager forward on a few tokens, before it is used.

Discovery reads what layers say they do; this catches what they do besides: a convolution or a
recurrence between tokens, attention that reads more of its module than it passes on, a mask the
model builds by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from agentrt.errors import UnsupportedModel
from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.reference import TorchAttention
from agentrt.runtime.batch import Layout
from agentrt.runtime.model import hook
from agentrt.runtime.model.decoder import forward
from agentrt.runtime.model.probing import close, probe_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from agentrt.runtime.batch import Int64Array
    from agentrt.runtime.model.model import Model

_LENGTHS = (13, 6)  # tokens of the two sequences that are decoded together
_SPLITS = ((5, 3), (7, 2), (1, 1))  # how many of each a step computes


@dataclass(frozen=True, slots=True)
class Reference:
    """What the model's own eager forward gives for two prompts, each alone and in one piece."""

    prompts: tuple[Int64Array, ...]
    logits: tuple[torch.Tensor, ...]  # [len(prompt), vocab]

    @classmethod
    def of(cls, module: nn.Module) -> Reference:
        prompts = tuple(probe_tokens(module, count).numpy(force=True) for count in _LENGTHS)
        return cls(prompts, tuple(_eager_logits(module, prompt) for prompt in prompts))


def check_against_eager(model: Model, reference: Reference, *, kind: str) -> None:
    """Decodes the two prompts in mixed, chunked steps and compares every logit.

    Raises UnsupportedModel, naming the `kind` of model, when they differ by more than rounding.
    Leaves the model without a backend.
    """
    slots = sum(_LENGTHS)
    cache = KVCache(model.layers, num_slots=slots, dtype=model.dtype, device=model.device)
    model.attach(TorchAttention(cache))
    done = (0, 0)
    for counts in _SPLITS:
        layout = _layout(reference.prompts, done, counts)
        logits = model.forward(layout, np.arange(layout.num_tokens, dtype=np.int64))
        for got, all_wanted, start in zip(
            logits.split(list(counts)), reference.logits, done, strict=True
        ):
            if not close(got, all_wanted[start : start + len(got)]):
                raise UnsupportedModel(_refusal(model.spec.name, kind))
        done = (done[0] + counts[0], done[1] + counts[1])
    model.detach()


def _refusal(name: str, kind: str) -> str:
    return (
        f"{name} ({kind}) gives other logits through this runtime than in its own "
        "eager forward: tokens are mixed by something other than the attention it declares "
        "(a recurrence, a convolution, a bias added to the scores). Use a model whose layers "
        "attend through transformers' attention interface alone"
    )


def _eager_logits(module: nn.Module, prompt: Int64Array) -> torch.Tensor:
    device = next(module.parameters()).device
    positions = torch.arange(len(prompt), device=device)
    cast("Any", module).set_attn_implementation(hook.EAGER)
    try:
        return forward(module, torch.from_numpy(prompt).to(device), positions, positions)
    finally:
        cast("Any", module).set_attn_implementation(hook.RUN)


def _layout(
    prompts: Sequence[Int64Array], done: tuple[int, ...], counts: tuple[int, ...]
) -> Layout:
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
