"""Chooses the next tokens, and says how likely given ones are.

What is chosen for a row depends on that row alone: its logits, its parameters, its seed, position,
mask and history; not on the other rows, their order, or the number of threads. Greedy rows
(temperature 0) take the largest logit, of equals the lowest id. Other rows draw once from what is
left after `logit_edits`, then temperature, top_k, top_p and min_p, as `draw` says.

Log-probabilities are of the model's own distribution, before any of that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from agentrt.runtime.batch import Sampled
from agentrt.runtime.draw import (
    UNIT,
    draw_from_all,
    draw_from_nucleus,
    draw_from_top_k,
    top_tokens,
    weights_of,
)
from agentrt.runtime.logit_edits import changes_values, edited, mask_words, may_come

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentrt.runtime.batch import Float32Array, Int64Array, SampleRow

    Float64Array = npt.NDArray[np.float64]
    Choose = Callable[[torch.Tensor, Float32Array, Sequence[SampleRow]], list[int]]

_DEVICE_BLOCK = 64  # rows per block on a device: few launches, and a bound on scratch memory


def sample(logits: torch.Tensor, rows: Sequence[SampleRow]) -> tuple[Sampled, ...]:
    """Chooses one token for each row: `rows[i]` from `logits[i]`; logits float32 [R, V].

    A row that cannot be sampled (non-finite logits, nothing left to choose from) is answered with
    an error and token id -1. Token ids in the rows must lie in [0, V).
    """
    if len(logits) != len(rows):
        raise ValueError(f"{len(rows)} rows to sample from {len(logits)} rows of logits")
    if not rows:
        return ()
    top_ids, best = _row_maxima(logits)
    outcomes = [
        _settle(row, top_id, value, logits.shape[1])
        for row, top_id, value in zip(rows, top_ids.tolist(), best.tolist(), strict=True)
    ]
    pending = [i for i, outcome in enumerate(outcomes) if outcome is None]
    for choose, block in _by_chooser(pending, rows, logits.device) if pending else ():
        chosen = _choose(choose, _take_rows(logits, block), [rows[i] for i in block])
        for i, outcome in zip(block, chosen, strict=True):
            outcomes[i] = outcome
    return tuple(
        _answer(outcome, row, logits, best, i)
        for i, (outcome, row) in enumerate(zip(outcomes, rows, strict=True))
    )


def score(logits: torch.Tensor, rows: Int64Array, targets: Int64Array) -> Float32Array:
    """Natural log-probabilities, float32 [S], of `targets[i]` under `logits[rows[i]]`; logits
    float32 [R, V].

    NaN where a row is not a distribution: it holds NaN or +inf, or nothing but -inf.
    """
    if not len(rows):
        return np.empty(0, np.float32)
    normalisers = np.empty(len(logits))
    for block in _split(list(range(len(logits))), logits.device):
        alike = logits[block[0] : block[-1] + 1]
        normalisers[block] = _log_normalisers(alike, _row_maxima(alike)[1])
    where = (torch.from_numpy(each).to(logits.device) for each in (rows, targets))
    values = logits[tuple(where)].cpu().numpy()
    return (values - normalisers[rows]).astype(np.float32)


def _settle(row: SampleRow, top_id: int, best: float, vocab_size: int) -> int | str | None:
    """The token where the largest raw logit already decides, an error, or None: yet to be chosen.

    A constraint rarely forbids what the model likes best, so that most greedy rows under a mask
    end here too.
    """
    if not math.isfinite(best):
        return _not_a_distribution(best)
    if row.mask is not None and len(row.mask) != mask_words(vocab_size):
        return (
            f"its mask has {len(row.mask)} words and {vocab_size} logits want "
            f"{mask_words(vocab_size)}; make it for the model's vocabulary"
        )
    if row.params.temperature > 0.0 or changes_values(row) or not may_come(row, top_id):
        return None
    return top_id


def _not_a_distribution(best: float) -> str:
    if best == -math.inf:
        return "every logit the model gave is -inf; check the model's weights"
    what = "NaN" if math.isnan(best) else "+inf"
    return f"the model gave {what} among the logits; check its weights and its number format"


def _nothing_to_choose(row: SampleRow, best: float) -> str:
    if best != -math.inf:
        return "logit_bias or a penalty pushed a logit out of float32's range; make it smaller"
    causes = {
        "the mask": row.mask is not None,
        "banned tokens (end tokens before min_tokens)": bool(row.banned),
        "logit_bias": bool(row.params.logit_bias),
    }
    return "nothing is left to choose from after " + " and ".join(c for c in causes if causes[c])


def _choose(choose: Choose, logits: torch.Tensor, rows: Sequence[SampleRow]) -> Sequence[int | str]:
    """Chooses from the logits as the rows change them: a token or an error for each."""
    logits = edited(logits, rows)
    best = _row_maxima(logits)[1]
    fine = np.flatnonzero(np.isfinite(best)).tolist()
    outcomes: list[int | str] = [
        _nothing_to_choose(row, value) for row, value in zip(rows, best.tolist(), strict=True)
    ]
    if fine:
        usable = logits if len(fine) == len(rows) else _take_rows(logits, fine)
        tokens = choose(usable, best[fine], [rows[i] for i in fine])
        for i, token_id in zip(fine, tokens, strict=True):
            outcomes[i] = token_id
    return outcomes


def _greediest(logits: torch.Tensor, _best: Float32Array, _rows: Sequence[SampleRow]) -> list[int]:
    return _row_maxima(logits)[0].tolist()


def _chooser(row: SampleRow) -> Choose:
    params = row.params
    if params.temperature == 0.0:
        return _greediest
    if params.top_k is not None:
        return draw_from_top_k
    if params.top_p < 1.0 or params.min_p > 0.0:
        return draw_from_nucleus
    return draw_from_all


def _by_chooser(
    pending: Sequence[int], rows: Sequence[SampleRow], device: torch.device
) -> Iterator[tuple[Choose, list[int]]]:
    """The pending rows in blocks that are chosen in the same way."""
    for choose in (_greediest, draw_from_all, draw_from_nucleus, draw_from_top_k):
        alike = [i for i in pending if _chooser(rows[i]) is choose]
        for block in _split(alike, device):
            yield choose, block


def _split(indices: list[int], device: torch.device) -> Iterator[list[int]]:
    """Blocks to compute at once: single rows on a CPU, where they stay in its cache."""
    size = 1 if device.type == "cpu" else _DEVICE_BLOCK
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


def _take_rows(logits: torch.Tensor, indices: list[int]) -> torch.Tensor:
    if len(indices) == 1:
        return logits[indices[0] : indices[0] + 1]
    return logits.index_select(0, torch.tensor(indices, device=logits.device))


def _answer(
    outcome: int | str | None, row: SampleRow, logits: torch.Tensor, best: Float32Array, i: int
) -> Sampled:
    """The result of row i, with what it wants to know of its logits as the model gave them."""
    if not isinstance(outcome, int):
        return Sampled(-1, error=outcome)
    params = row.params
    if not params.logprobs and not params.top_logprobs:
        return Sampled(outcome)
    ids = np.asarray([outcome], np.int64)
    if params.top_logprobs:
        ids = np.concatenate([ids, top_tokens(logits[i], params.top_logprobs)])
    values = logits[i].take(torch.from_numpy(ids).to(logits.device)).cpu().numpy()
    normaliser = _log_normalisers(logits[i : i + 1], best[i : i + 1])
    logprobs = (values - normaliser).tolist()
    top = zip(ids.tolist()[1:], logprobs[1:], strict=True)
    return Sampled(outcome, logprobs[0], tuple(pair for pair in top if pair[1] > -math.inf))


def _row_maxima(logits: torch.Tensor) -> tuple[Int64Array, Float32Array]:
    """Per row the first largest logit's id and value; a row with NaN has NaN for its value."""
    if logits.is_cpu:  # numpy's argmax is 10 times faster than torch's on a CPU
        ids = logits.numpy().argmax(1)
        return ids, logits.numpy()[np.arange(len(ids)), ids]
    values, ids = logits.max(1)
    return ids.cpu().numpy(), values.cpu().numpy()


def _log_normalisers(logits: torch.Tensor, best: Float32Array) -> Float64Array:
    """log(sum(exp(logits))) per row, from exact sums: the same bits in every batch.

    NaN where the largest logit is not finite.
    """
    totals = weights_of(logits, best, [1.0] * len(best)).sum(1).cpu().numpy()
    usable = np.where(np.isfinite(best), totals, UNIT)
    return np.where(np.isfinite(best), best + np.log(usable / UNIT), np.nan)
