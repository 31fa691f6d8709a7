"""transformers' continuous batching, fp32, with its block sharing for equal prefixes."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.peers.desk import Desk, Job
from benchmarks.peers.files import tokenizer, transformers_folder
from benchmarks.workloads import Answer

MOST = 32


class TransformersContinuous(Desk):
    """Its requests are of one length here, as its generation options are of the whole engine."""

    name = "transformers-cb"
    can = frozenset({"text"})

    def load(self) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(self.threads)
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            transformers_folder(), dtype="float32", attn_implementation="sdpa"
        ).eval()
        self._tokenizer = tokenizer()
        self._manager: Any = None

    def forget(self) -> None:
        from transformers import ContinuousBatchingConfig, GenerationConfig

        if self._manager is not None:
            self._manager.stop(block=True)
        self._manager = self._model.init_continuous_batching(
            generation_config=GenerationConfig(do_sample=False, eos_token_id=-1),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=32, num_blocks=1_800, max_batch_tokens=512, max_requests_per_batch=64
            ),
        )
        self._manager.start()
        # Its thread lays out memory when the first request comes: that is no part of a workload.
        self._manager.add_request([1], max_new_tokens=1)
        while not ((told := self._manager.get_result(timeout=1)) and told.is_finished()):
            pass

    def serve(self, jobs: list[Job]) -> None:
        running: dict[str, Job] = {}
        firsts: dict[str, float] = {}
        while jobs or running:
            for job in jobs:
                running[self._submit(job)] = job
            result = self._manager.get_result(timeout=0.05)
            if result is not None:
                name = result.request_id
                firsts.setdefault(name, time.perf_counter())
                if result.is_finished():
                    written = list(result.generated_tokens)
                    text = self._tokenizer.decode(written)
                    job = running.pop(name)
                    job.answer.set_result(Answer(text, len(written), firsts[name]))
            jobs = self.more()

    def _submit(self, job: Job) -> str:
        ids = self._tokenizer(job.prompt)["input_ids"]
        return self._manager.add_request(ids, max_new_tokens=job.max_tokens, streaming=True)
