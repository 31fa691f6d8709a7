"""Drawing a token from logits with exact arithmetic, so that no order of summation can change it.

Floating-point sums depend on how a row is split over threads and vector lanes, and so on the
device and the batch. Here probabilities are whole numbers from the start: a token's weight is
floor(2**40 * exp((logit - best) / temperature)), the best token's exactly 2**40. Sums of whole
numbers have no rounding, and every decision (the nucleus, the draw) compares whole numbers.

Tokens less than 2**-40 as likely as the best one have weight 0 and are never drawn; together they
are less than V * 2**-40 of the mass, 5e-8 for 49,152 tokens.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from agentrt.runtime.rng import random_uint64

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.generation import SamplingParams
    from agentrt.runtime.batch import Float32Array, Int64Array, SampleRow

UNIT = 2**40  # the weight of a row's best token; sums stay below 2**62 for up to 2**22 tokens


def weights_of(
    logits: torch.Tensor, best: Float32Array, temperatures: Sequence[float]
) -> torch.Tensor:
    """Weights, int64 [R, V], of logits, float32 [R, V], whose row maxima are `best`.

    Temperatures are clamped to what float32 can divide by; at both ends that changes nothing.
    """
    divisors = [[min(max(t, 2.0**-126), 2.0**126)] for t in temperatures]
    top = torch.from_numpy(best).to(logits.device)[:, None]
    scaled = logits - top  # before dividing, so that no temperature can overflow
    scaled /= torch.tensor(divisors, dtype=torch.float32, device=logits.device)
    # exp(-32) is far below 2**-40, and exp is 4 times slower where it underflows.
    return scaled.clamp_(min=-32.0).exp_().mul_(UNIT).to(torch.int64)


def draw_from_all(logits: torch.Tensor, best: Float32Array, rows: Sequence[SampleRow]) -> list[int]:
    """One token per row from the whole distribution, by inverse CDF in ascending order of id."""
    weights = weights_of(logits, best, [row.params.temperature for row in rows])
    sums = weights.cumsum_(1)
    aims = [[_aim(row, total)] for row, total in zip(rows, sums[:, -1].tolist(), strict=True)]
    aim = torch.tensor(aims, dtype=torch.int64, device=logits.device)
    return torch.searchsorted(sums, aim, right=True)[:, 0].tolist()


def draw_from_nucleus(
    logits: torch.Tensor, best: Float32Array, rows: Sequence[SampleRow]
) -> list[int]:
    """One token per row from what top_p and min_p keep, by inverse CDF in ascending order of id."""
    weights = weights_of(logits, best, [row.params.temperature for row in rows])
    totals = weights.sum(1).tolist()
    bound = [
        [_floor(row.params, total, logits.shape[1])]
        for row, total in zip(rows, totals, strict=True)
    ]
    flat = _true_positions(weights >= torch.tensor(bound, device=logits.device))
    values, heavy = _take(logits, flat), _take(weights, flat)
    return [
        _draw(ids, values[its], heavy[its], row, total)
        for (ids, its), row, total in zip(_by_row(flat, logits), rows, totals, strict=True)
    ]


def draw_from_top_k(
    logits: torch.Tensor, best: Float32Array, rows: Sequence[SampleRow]
) -> list[int]:
    """One token per row from what top_k, top_p and min_p keep, by inverse CDF in order of id."""
    least = _kth_largest(logits, [row.params.top_k or 1 for row in rows])
    flat = _true_positions(logits >= least[:, None])
    values = _take(logits, flat)
    tokens: list[int] = []
    for i, (ids, its) in enumerate(_by_row(flat, logits)):
        order = by_likelihood(values[its])[: rows[i].params.top_k]
        first = np.sort(order)
        kept = torch.from_numpy(values[its][first])[None]
        weights = weights_of(kept, best[i : i + 1], [rows[i].params.temperature])[0].numpy()
        tokens.append(_draw(ids[first], values[its][first], weights, rows[i], int(weights.sum())))
    return tokens


def _draw(
    ids: Int64Array, logits: Float32Array, weights: Int64Array, row: SampleRow, total: int
) -> int:
    """Draws from the ids, ascending, that top_p and min_p keep out of a mass of `total`.

    Tokens are ranked by logit, of equals the lowest id first. top_p keeps those before which less
    than top_p of the mass lies (Holtzman et al. 2020), min_p those at least min_p times as likely
    as the best.
    """
    kept = weights >= _least(row.params)
    if row.params.top_p < 1.0:
        order = by_likelihood(logits)
        before = weights[order].cumsum() - weights[order]
        kept[order[before >= _share(row.params.top_p, total)]] = False
    sums = weights[kept].cumsum()
    return int(ids[kept][np.searchsorted(sums, _aim(row, int(sums[-1])), side="right")])


def _aim(row: SampleRow, total: int) -> int:
    """A whole number below `total`, evenly spread: the row's random 64 bits times total / 2**64."""
    return random_uint64(row.seed, row.position) * total >> 64


def _floor(params: SamplingParams, total: int, vocab_size: int) -> int:
    """A weight below which neither top_p nor min_p keeps a token: it leaves few to be sorted.

    For top_p: all the tokens lighter than (1 - top_p) * total / V together weigh less than
    (1 - top_p) * total, so that those before them already hold top_p of the mass.
    """
    return max(_least(params), (total - _share(params.top_p, total)) // vocab_size)


def _least(params: SamplingParams) -> int:
    """The weight of a token min_p times as likely as the best one; 1 where any weight will do."""
    return max(1, math.ceil(params.min_p * UNIT))


def _share(top_p: float, total: int) -> int:
    """The least whole number that is at least top_p * total, exactly."""
    numerator, denominator = top_p.as_integer_ratio()
    return -(-numerator * total // denominator)


def top_tokens(logits: torch.Tensor, k: int) -> Int64Array:
    """The k largest of one row of logits [V], largest first, of equals the lowest id first."""
    least = _kth_largest(logits[None], [k])
    ids = _true_positions(logits >= least)
    return ids[by_likelihood(_take(logits, ids))[:k]]


def by_likelihood(logits: Float32Array) -> Int64Array:
    """The indices of the logits [N], largest logit first, of equals the lowest index first.

    Value and index are packed into one whole number each: those sort 10 times faster than a stable
    sort of the values, which is what a flat distribution of the whole vocabulary would need.
    """
    bits = (logits + np.float32(0.0)).view(np.int32).astype(np.int64)  # -0.0 becomes 0.0
    ascending = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # IEEE 754: sign and magnitude
    keys = (~ascending << 32) | np.arange(len(logits))
    keys.sort()
    return keys & 0xFFFFFFFF


def _kth_largest(logits: torch.Tensor, ks: Sequence[int]) -> torch.Tensor:
    """The ks[i]-th largest value of row i, or the least that is not forbidden; float32 [R]."""
    ks = [min(k, logits.shape[1]) for k in ks]
    largest = logits.topk(max(ks), dim=1).values
    kth = largest.gather(1, torch.tensor(ks, device=logits.device)[:, None] - 1)[:, 0]
    return kth.clamp(min=torch.finfo(torch.float32).min)


def _true_positions(flags: torch.Tensor) -> Int64Array:
    """The flat indices of what is true, ascending."""
    if flags.is_cpu:  # numpy looks for them 10 times faster than torch does here
        return np.flatnonzero(flags.numpy())
    return flags.view(-1).nonzero()[:, 0].cpu().numpy()


def _take(values: torch.Tensor, flat: Int64Array) -> npt.NDArray[Any]:
    return values.take(torch.from_numpy(flat).to(values.device)).cpu().numpy()


def _by_row(flat: Int64Array, logits: torch.Tensor) -> Iterator[tuple[Int64Array, slice]]:
    """For each row of the logits [R, V] its tokens among the flat indices, and where they are."""
    num_rows, vocab_size = logits.shape
    bounds = np.searchsorted(flat, np.arange(num_rows + 1) * vocab_size)
    for i in range(num_rows):
        its = slice(bounds[i], bounds[i + 1])
        yield flat[its] - i * vocab_size, its
