"""transformers' `generate`, fp32: what waits becomes a left-padded batch."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.peers.desk import Desk, Job
from benchmarks.peers.files import likeliest, tokenizer
from benchmarks.reference import reference_model
from benchmarks.workloads import Answer

BATCH = 32


class TransformersGenerate(Desk):
    name = "transformers"

    def load(self) -> None:
        import torch

        torch.set_num_threads(self.threads)
        self._torch: Any = torch
        self._model = reference_model()
        self._tokenizer = tokenizer()

    def serve(self, jobs: list[Job]) -> None:
        with self._torch.inference_mode():
            while jobs:
                first, same = jobs[0], jobs
                if first.choices:
                    self._choose(jobs.pop(0))
                else:
                    same = [job for job in jobs if job.max_tokens == first.max_tokens][:BATCH]
                    self._write(same)
                    jobs = [job for job in jobs if job not in same]
                jobs += self.more()

    def _write(self, jobs: list[Job]) -> None:
        new = jobs[0].max_tokens
        batch = self._tokenizer(
            [job.prompt for job in jobs], return_tensors="pt", padding=True, padding_side="left"
        )
        firsts: list[float] = []

        def note(_: Any, scores: Any) -> Any:
            firsts.append(time.perf_counter())
            return scores

        out = self._model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            do_sample=False,
            max_new_tokens=new,
            min_new_tokens=new,
            pad_token_id=self._tokenizer.pad_token_id,
            logits_processor=[note],
        )
        written = out[:, batch["input_ids"].shape[1] :]
        lengths = batch["attention_mask"].sum(1).tolist()
        texts = self._tokenizer.batch_decode(written)
        for job, text, length in zip(jobs, texts, lengths, strict=True):
            job.answer.set_result(Answer(text, new, firsts[0], computed=length))

    def _choose(self, job: Job) -> None:
        prompt = len(self._tokenizer(job.prompt)["input_ids"])
        rows = self._tokenizer([job.prompt + choice for choice in job.choices])["input_ids"]
        padded = self._tokenizer.pad({"input_ids": rows}, return_tensors="pt", padding_side="right")
        logits = self._model(**padded).logits
        found = [logits[i, prompt - 1 : len(row) - 1] for i, row in enumerate(rows)]
        best = likeliest(found, [row[prompt:] for row in rows])
        computed = sum(map(len, rows))
        job.answer.set_result(Answer(job.choices[best], 0, computed=computed))
