"""How far each form of the weights is from fp32: KL divergence, top token, perplexity.

    python -m benchmarks.divergence [--tokens 2700] [--forms file,file-fast,int8]

Every form computes the same texts; at each position its distribution is compared with that of the
full floats (natural logarithms). The last line is one JSON object: {form: {kl, top1, perplexity}}.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.native import NativeAttention
from agentrt.runtime.batch import Layout
from agentrt.runtime.codec import ModelCodec
from agentrt.runtime.models import cache_dir, resolve
from agentrt.runtime.native import load
from agentrt.runtime.preparation import load_packed
from benchmarks.data import mixed_prompts
from benchmarks.report import finish, show

if TYPE_CHECKING:
    from agentrt.runtime.native import Kernels
    from agentrt.runtime.products import WeightForm


def texts(codec: ModelCodec, tokens: int) -> list[list[int]]:
    """Essays and prompts until there are that many tokens."""
    longest = sorted(mixed_prompts(300), key=len, reverse=True)
    found: list[list[int]] = []
    for text in longest:
        ids = codec.encode(text)
        found.append(ids[: tokens - sum(map(len, found))])
        if sum(map(len, found)) >= tokens:
            break
    return found


def distributions(kernels: Kernels, form: WeightForm, asked: list[list[int]]) -> list[Any]:
    """Log-probabilities [T, V] of every text, computed alone."""
    model = load_packed(resolve(None), kernels, form)
    cache = KVCache(model.layers, num_slots=4096, dtype=torch.float32, device=model.device)
    model.attach(NativeAttention(kernels, cache))
    return [
        torch.log_softmax(model.forward(one_sequence(ids), np.arange(len(ids))), -1)
        for ids in asked
    ]


def one_sequence(ids: list[int]) -> Layout:
    n = len(ids)
    places = np.arange(n, dtype=np.int64)
    bounds = np.array([0, n], np.int32)
    return Layout(np.array(ids, np.int64), places, places, bounds, bounds, places.astype(np.int32))


def compare(full: list[Any], other: list[Any], asked: list[list[int]]) -> dict[str, float]:
    p, q = torch.cat(full), torch.cat(other)
    targets = [(torch.tensor(ids[1:]), one[:-1]) for ids, one in zip(asked, other, strict=True)]
    losses = torch.cat([-one.gather(1, ids[:, None])[:, 0] for ids, one in targets])
    return {
        "kl": float((p.exp() * (p - q)).sum(-1).double().mean()),
        "top1": float((p.argmax(-1) == q.argmax(-1)).double().mean()),
        "perplexity": float(losses.double().mean().exp()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=2700)
    parser.add_argument("--forms", default="file,file-fast,int8")
    args = parser.parse_args()
    kernels = load(cache_dir() / "kernels")
    asked = texts(ModelCodec(resolve(None)), args.tokens)
    full = distributions(kernels, "fp32", asked)
    report = {"fp32": compare(full, full, asked)}
    for form in args.forms.split(","):
        report[form] = compare(full, distributions(kernels, form, asked), asked)
    rows = [(form, *figures.values()) for form, figures in report.items()]
    show(f"{sum(map(len, asked))} tokens", ["form", "KL to fp32", "same top token", "ppl"], rows)
    finish(report)


if __name__ == "__main__":
    main()
