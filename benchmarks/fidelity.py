"""Does the answer depend on anything but the question? And is it the answer transformers gives?

    python -m benchmarks.fidelity [--prompts 200] [--tokens 64] [--chars N] [--transformers]

Every pairing generates the same prompts in two ways and counts the prompts whose tokens differ.
The last line is one JSON object: pairs {name: {flips, of}}, transformers {identical, of,
near_ties}.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from agentrt import Runtime, SamplingParams
from benchmarks.data import mixed_prompts
from benchmarks.reference import reference_model

if TYPE_CHECKING:
    from collections.abc import Sequence

Tokens = tuple[int, ...]

_BATCH = 16  # prompts that transformers serves together

GREEDY = "greedy"
SEEDED = "seeded"


@dataclass(frozen=True)
class Way:
    """One way of serving the prompts: runtime options, how many at once, and over which cache."""

    options: dict[str, Any] = field(default_factory=dict)
    together: int = 64
    warm: bool = False


def ways(prompt_tokens: int, tokens: int) -> dict[str, Way]:
    """The ways compared; the first is what the others are held against."""
    small_pool = max(prompt_tokens + tokens + 64, 3 * (prompt_tokens + tokens) // 2)
    return {
        "cold cache, 64 at once": Way(),
        "warm cache": Way(warm=True),
        "cache off": Way({"cache": False}),
        "alone": Way(together=1),
        "alone, nothing looked up": Way({"lookup": False}, together=1),
        "chunks of 64": Way({"max_step_tokens": 64}),
        "unchunked": Way({"max_step_tokens": None}),
        "retractions": Way({"kv_tokens": small_pool}),
    }


def params(mode: str, index: int, tokens: int) -> SamplingParams:
    if mode == GREEDY:
        return SamplingParams(max_tokens=tokens)
    return SamplingParams(max_tokens=tokens, temperature=0.8, top_p=0.95, seed=index)


async def answers(
    runtime: Runtime, prompts: Sequence[str], mode: str, way: Way, tokens: int, tick: Any
) -> list[Tokens]:
    """The tokens generated for every prompt, `way.together` of them in flight."""
    results: list[Tokens] = [()] * len(prompts)
    limit = asyncio.Semaphore(way.together)

    async def answer(index: int) -> None:
        async with limit:
            done = await runtime.generate(prompts[index], params(mode, index, tokens))
        results[index] = done.token_ids
        tick()

    async with asyncio.TaskGroup() as group:
        for index in range(len(prompts)):
            group.create_task(answer(index))
    return results


async def serve(
    prompts: Sequence[str], way: Way, tokens: int, weights: str, tick: Any
) -> tuple[dict[str, list[Tokens]], int]:
    """Both modes served one way; also how many times a request was retracted."""
    found: dict[str, list[Tokens]] = {}
    async with Runtime(weights=weights, **way.options) as runtime:
        for mode in (GREEDY, SEEDED):
            await runtime.flush_cache()
            if way.warm:
                for prompt in prompts:
                    await runtime.prefill(prompt)
            found[mode] = await answers(runtime, prompts, mode, way, tokens, tick)
        return found, runtime.stats().retractions


def flips(one: Sequence[Tokens], other: Sequence[Tokens]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


async def measure(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    prompts = [prompt[: args.chars] for prompt in mixed_prompts(args.prompts)]
    async with Runtime(weights=args.weights) as runtime:
        longest = max(len(runtime.tokenize(prompt)) for prompt in prompts)
    compared = ways(longest, args.tokens)
    served: dict[str, dict[str, list[Tokens]]] = {}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("serving", total=len(compared) * 2 * len(prompts))
        for name, way in compared.items():
            progress.update(task, description=name)
            console.log(name)
            served[name], retracted = await serve(
                prompts, way, args.tokens, args.weights, lambda: progress.advance(task)
            )
            if name == "retractions" and not retracted:
                console.print("[yellow]the small pool retracted nothing; lower it")
    first, *others = compared
    pairs = {
        f"{mode}: {first} / {other}": {
            "flips": flips(served[first][mode], served[other][mode]),
            "of": len(prompts),
        }
        for other in others
        for mode in (GREEDY, SEEDED)
    }
    report: dict[str, Any] = {"weights": args.weights, "pairs": pairs}
    if args.transformers:
        report["transformers"] = await against_transformers(prompts, args.tokens, console)
    return report


async def against_transformers(
    prompts: Sequence[str], tokens: int, console: Console
) -> dict[str, int]:
    """fp32 greedy beside `generate`: a difference is a near-tie if the top two logits are < 1e-3
    apart where the two first part. transformers serves left-padded batches of prompts of like
    length, which is several times as fast as one by one."""
    async with Runtime(weights="fp32") as runtime:
        ours = await answers(runtime, prompts, GREEDY, Way(), tokens, lambda: None)
        ids = [runtime.tokenize(prompt) for prompt in prompts]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    batches = [order[i : i + _BATCH] for i in range(0, len(order), _BATCH)]
    model = reference_model()
    eos = model.generation_config.eos_token_id or model.config.eos_token_id
    found = {"identical": 0, "of": len(prompts), "near_ties": 0}
    with Progress(console=console, transient=True) as progress:
        for batch in progress.track(batches, description="transformers"):
            wanted, gaps = generate(model, [ids[i] for i in batch], tokens)
            for row, i in enumerate(batch):
                one = until(eos, wanted[row])
                pairs = enumerate(zip(one, ours[i], strict=False))
                at = next((k for k, (a, b) in pairs if a != b), None)
                if one == ours[i]:
                    found["identical"] += 1
                elif at is not None and gaps[row][at] < 1e-3:
                    found["near_ties"] += 1
    return found


def generate(
    model: Any, prompts: Sequence[Sequence[int]], tokens: int
) -> tuple[list[list[int]], list[list[float]]]:
    """What transformers writes after each prompt, and the gap of the top two logits each time."""
    import torch

    longest = max(map(len, prompts))
    padded = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    with torch.inference_mode():
        output = model.generate(
            padded,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=tokens,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
    tops = torch.stack([logits.topk(2).values for logits in output.logits], 1)
    gaps = (tops[..., 0] - tops[..., 1]).tolist()
    return output.sequences[:, longest:].tolist(), gaps


def until(eos: int | list[int], tokens: Sequence[int]) -> Tokens:
    """Tokens up to the first end token, itself included; what follows is padding."""
    ends = {eos} if isinstance(eos, int) else set(eos)
    end = next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))
    return tuple(tokens[:end])


def show(report: dict[str, Any], console: Console) -> None:
    table = Table("pairing", "flips", "of", title="Prompts whose tokens differ")
    for name, pair in report["pairs"].items():
        table.add_row(name, str(pair["flips"]), str(pair["of"]))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--chars", type=int, default=None, help="cut prompts to so many")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--transformers", action="store_true", help="also beside generate (slow)")
    console = Console(stderr=True)
    args = parser.parse_args()
    report = asyncio.run(measure(args, console))
    show(report, console)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
