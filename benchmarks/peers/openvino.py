"""openvino-genai: continuous batching with prefix caching, the model exported to int8."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from benchmarks.peers.desk import Desk, Job
from benchmarks.peers.files import openvino_folder, tokenizer
from benchmarks.workloads import Answer


class Openvino(Desk):
    """Scoring of choices reads the log-probabilities of an echoed prompt."""

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
        running: list[tuple[Job, list[_Reading]]] = []
        while jobs or running:
            running += [(job, self._submit(job)) for job in jobs]
            self._pipe.step()
            for job, readings in running:
                for reading in readings:
                    reading.read()
                if all(reading.done for reading in readings):
                    job.answer.set_result(self._answer(job, readings))
            running = [(job, readings) for job, readings in running if not job.answer.done()]
            jobs = self.more()

    def _submit(self, job: Job) -> list[_Reading]:
        config = self._genai.GenerationConfig()
        if job.choices:
            config.max_new_tokens, config.echo, config.logprobs = 1, True, 1
            return [self._request(job.prompt + choice, config) for choice in job.choices]
        config.max_new_tokens = job.max_tokens
        if job.kind is None:
            config.min_new_tokens, config.ignore_eos = job.max_tokens, True
        else:
            config.eos_token_id = self._tokenizer.eos_token_id
            config.structured_output_config = self._genai.StructuredOutputConfig(
                json_schema=json.dumps(job.kind.model_json_schema())
            )
        return [self._request(job.prompt, config)]

    def _request(self, prompt: str, config: Any) -> _Reading:
        self._asked += 1
        ids = self._tokenizer(prompt)["input_ids"]
        tensor = self._tensor(np.asarray([ids], np.int64))
        return _Reading(self._pipe.add_request(self._asked, tensor, config), self._genai)

    def _answer(self, job: Job, readings: list[_Reading]) -> Answer:
        if job.choices:
            prompt = len(self._tokenizer(job.prompt)["input_ids"])
            means = [float(np.mean(reading.logprobs[prompt:-1])) for reading in readings]
            return Answer(job.choices[int(np.argmax(means))], 0)
        ids = readings[0].ids
        text = self._tokenizer.decode(ids, skip_special_tokens=job.kind is not None)
        return Answer(text, len(ids), readings[0].first)


class _Reading:
    """One request's tokens as they come."""

    def __init__(self, handle: Any, genai: Any) -> None:
        self._handle = handle
        self._running = genai.GenerationStatus.RUNNING
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.first: float | None = None
        self.done = False

    def read(self) -> None:
        while self._handle.can_read():
            for piece in self._handle.read().values():
                self.first = self.first or time.perf_counter()
                self.ids += piece.generated_ids
                self.logprobs += piece.generated_log_probs
        self.done = self._handle.get_status() != self._running
