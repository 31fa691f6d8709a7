"""guidance on llama.cpp: choices and JSON by its own grammar engine, one call after the other."""

from __future__ import annotations

from typing import Any

import guidance
import llama_cpp  # noqa: F401 - guidance asks for it only when the model is loaded

from benchmarks.peers.desk import Desk, Job
from benchmarks.peers.files import gguf_file
from benchmarks.workloads import Answer


class Guidance(Desk):
    """Its `select` walks the choices greedily, token by token. Text of a set length is not asked
    of it: it has no way to forbid end tokens."""

    name = "guidance"
    can = frozenset({"select", "json"})

    def load(self) -> None:
        self._fresh: Any = None

    def forget(self) -> None:
        self._fresh = guidance.models.LlamaCpp(
            str(gguf_file()),
            n_ctx=4_096,
            n_threads=self.threads,
            n_threads_batch=self.threads,
            echo=False,
            verbose=False,
        )

    def serve(self, jobs: list[Job]) -> None:
        for job in jobs:
            model = self._fresh + job.prompt
            if job.choices:
                said = model + guidance.select(list(job.choices), name="it")
                job.answer.set_result(Answer(said["it"], 0))
            else:
                said = model + guidance.json("it", schema=job.kind, max_tokens=job.max_tokens)
                tokens = len(self._fresh.engine.tokenizer.encode(said["it"].encode()))
                job.answer.set_result(Answer(said["it"], tokens))
