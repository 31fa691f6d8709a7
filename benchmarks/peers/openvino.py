"""openvino-genai: continuous batching with prefix caching, the model exported to int8."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import numpy as np

from benchmarks.peers.desk import Desk, Job
from benchmarks.peers.files import openvino_folder, tokenizer
from benchmarks.workloads import Answer


class Openvino(Desk):
    """Chooses among texts by a regex: its echoed log-probabilities take minutes for what this takes
    seconds (the output layer for every row of every prompt)."""

    name = "openvino"
    can = frozenset({"text", "select", "json"})

    def load(self) -> None:
        import openvino
        import openvino_genai

        if not openvino_folder().is_dir():
            raise FileNotFoundError(
                f"{openvino_folder()} is missing; export it as docs/benchmarks.md says"
            )
        self._genai: Any = openvino_genai
        self._tensor: Any = openvino.Tensor
        self._tokenizer = tokenizer()
        self._asked = 0

    def forget(self) -> None:
        config = self._genai.SchedulerConfig()
        config.cache_size = 3
        config.max_num_batched_tokens = 512
        config.max_num_seqs = 64
        config.dynamic_split_fuse = True
        config.enable_prefix_caching = True
        self._pipe: Any = None  # the old one's memory goes before the new one's is taken
        self._pipe = self._genai.ContinuousBatchingPipeline(
            str(openvino_folder()), config, "CPU", {"INFERENCE_NUM_THREADS": self.threads}
        )

    def serve(self, jobs: list[Job]) -> None:
        running: list[tuple[Job, _Reading]] = []
        while jobs or running:
            running += [(job, self._submit(job)) for job in jobs]
            self._pipe.step()
            for job, reading in running:
                reading.read()
                if reading.done:
                    job.answer.set_result(self._answer(job, reading))
            running = [(job, reading) for job, reading in running if not job.answer.done()]
            jobs = self.more()

    def _submit(self, job: Job) -> _Reading:
        config = self._genai.GenerationConfig()
        config.max_new_tokens = job.max_tokens or 32
        if job.kind is None and not job.choices:
            config.min_new_tokens, config.ignore_eos = job.max_tokens, True
        else:
            config.eos_token_id = self._tokenizer.eos_token_id
            config.structured_output_config = self._bound(job)
        return self._request(job.prompt, config)

    def _bound(self, job: Job) -> Any:
        if job.kind is None:
            regex = "|".join(map(re.escape, job.choices))
            return self._genai.StructuredOutputConfig(regex=f"({regex})")
        schema = json.dumps(job.kind.model_json_schema())
        return self._genai.StructuredOutputConfig(json_schema=schema)

    def _request(self, prompt: str, config: Any) -> _Reading:
        self._asked += 1
        ids = self._tokenizer(prompt)["input_ids"]
        tensor = self._tensor(np.asarray([ids], np.int64))
        return _Reading(self._pipe.add_request(self._asked, tensor, config), self._genai)

    def _answer(self, job: Job, reading: _Reading) -> Answer:
        ends = job.kind is not None or bool(job.choices)
        text = self._tokenizer.decode(reading.ids, skip_special_tokens=ends)
        return Answer(text, 0 if job.choices else len(reading.ids), reading.first)


class _Reading:
    """One request's tokens as they come."""

    def __init__(self, handle: Any, genai: Any) -> None:
        self._handle = handle
        self._running = genai.GenerationStatus.RUNNING
        self.ids: list[int] = []
        self.first: float | None = None
        self.done = False

    def read(self) -> None:
        while self._handle.can_read():
            for piece in self._handle.read().values():
                self.first = self.first or time.perf_counter()
                self.ids += piece.generated_ids
        self.done = self._handle.get_status() != self._running
