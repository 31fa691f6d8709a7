"""outlines on transformers, fp32: JSON by masks, one document after the other."""

from __future__ import annotations

from typing import Any

import outlines

from benchmarks.peers.desk import Desk, Job
from benchmarks.peers.files import tokenizer
from benchmarks.reference import reference_model
from benchmarks.workloads import Answer


class Outlines(Desk):
    name = "outlines"
    can = frozenset({"json"})

    def load(self) -> None:
        import torch

        torch.set_num_threads(self.threads)
        self._tokenizer = tokenizer()
        self._model: Any = outlines.from_transformers(reference_model(), self._tokenizer)
        self._generators: dict[Any, Any] = {}

    def serve(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.kind not in self._generators:
                self._generators[job.kind] = outlines.Generator(self._model, job.kind)
            text = self._generators[job.kind](
                job.prompt, max_new_tokens=job.max_tokens, do_sample=False
            )
            job.answer.set_result(Answer(text, len(self._tokenizer(text)["input_ids"])))
