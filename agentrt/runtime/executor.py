"""The real executor: a model, its KV pool, and the choice of the next tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from agentrt.runtime.batch import StepResult
from agentrt.runtime.sampler import sample, score

if TYPE_CHECKING:
    from agentrt.runtime.batch import Batch, ModelSpec
    from agentrt.runtime.model import Model


class TorchExecutor:
    """Runs batches of a model whose attention backend is attached to a pool of `num_slots`."""

    def __init__(self, model: Model, *, spec: ModelSpec, num_slots: int) -> None:
        self.spec = spec
        self.num_slots = num_slots
        self._model = model

    def execute(self, batch: Batch) -> StepResult:
        """One forward pass, then a choice for each sample row and a score for each score row."""
        sampled_rows = np.array([row.row for row in batch.samples], np.int64)
        score_rows = places = batch.score_rows
        if len(score_rows):  # a row that scores several tokens is gone through the head once
            score_rows, places = np.unique(score_rows, return_inverse=True)
        rows = np.concatenate([sampled_rows, score_rows])
        with torch.inference_mode():
            logits = self._model.forward(batch.layout, rows)
            chosen, scored = logits[: len(sampled_rows)], logits[len(sampled_rows) :]
            scores = score(scored, places, batch.score_targets)
            return StepResult(sample(chosen, batch.samples), scores)

    def close(self) -> None:
        self._model.detach()
