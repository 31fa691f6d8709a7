"""llama.cpp by llama-cpp-python: its batch API, continuously batched, on the file's 4-bit blocks.

What a prompt shares with any sequence still in memory is copied over from it, not computed again:
prompts are read one after the other, beside the sequences that write, so that each finds what the
one before it computed. Objects go one at a time through the library's own grammar sampling.
"""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

import llama_cpp
import numpy as np

from benchmarks.peers.desk import Desk, Job
from benchmarks.peers.files import gguf_file, likeliest, tokenizer
from benchmarks.workloads import Answer

SLOTS, CONTEXT, BATCH = 64, 49_152, 512


@dataclass(slots=True, eq=False)
class Sequence:
    """One sequence of llama.cpp's memory: `tokens[:known]` are computed."""

    id: int
    tokens: list[int] = field(default_factory=list)
    known: int = 0
    used: int = 0
    work: Work | None = None


@dataclass(slots=True, eq=False)
class Work:
    """What is to be done after a prompt: `left` tokens to write, or those from `score_from` on to
    score; `rows` are the logits that they were scored by."""

    job: Job
    tokens: list[int]
    left: int = 0
    score_from: int | None = None
    computed: int = 0
    first: float | None = None
    rows: list[Any] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        if self.score_from is None:
            return self.left == 0
        return len(self.rows) == len(self.tokens) - self.score_from


class LlamaCpp(Desk):
    name = "llama.cpp"
    can = frozenset({"text", "select", "json"})

    def load(self) -> None:
        self._llama: Any = llama_cpp.Llama(
            str(gguf_file()),
            n_ctx=4_096,
            n_batch=BATCH,
            n_threads=self.threads,
            n_threads_batch=self.threads,
            verbose=False,
        )
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = CONTEXT, BATCH, BATCH
        params.n_seq_max, params.kv_unified = SLOTS, True
        params.n_threads = params.n_threads_batch = self.threads
        self._context: Any = llama_cpp.llama_init_from_model(self._llama.model, params)
        self._batch: Any = llama_cpp.llama_batch_init(BATCH, 0, 1)
        self._memory: Any = llama_cpp.llama_get_memory(self._context)
        self._tokenizer = tokenizer()
        self._vocabulary = self._llama.n_vocab()
        self._clock = itertools.count(1)

    def forget(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, True)
        self._llama.reset()
        self._sequences = [Sequence(i) for i in range(SLOTS)]
        self._scored: dict[Job, list[Work]] = {}

    def serve(self, jobs: list[Job]) -> None:
        waiting: list[Work] = []
        while jobs or waiting or any(s.work for s in self._sequences):
            for job in jobs:
                if job.kind is None:
                    waiting += self._works(job)
                else:
                    self._write_object(job)
            self._admit(waiting)
            if any(s.work for s in self._sequences):
                self._step()
            jobs = self.more()

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text)["input_ids"])

    def _works(self, job: Job) -> list[Work]:
        prompt = self._ids(job.prompt)
        if not job.choices:
            return [Work(job, prompt, left=job.max_tokens)]
        whole = [self._ids(job.prompt + choice) for choice in job.choices]
        self._scored[job] = [Work(job, ids, score_from=len(prompt)) for ids in whole]
        return [*self._scored[job]]

    def _admit(self, waiting: list[Work]) -> None:
        """Lets the next prompt in when none is being read and a sequence is free."""
        while waiting and not any(s.work and s.known < len(s.tokens) - 1 for s in self._sequences):
            idle = [s for s in self._sequences if s.work is None]
            if not idle:
                return
            work = waiting.pop(0)
            last = len(work.tokens) - 1 if work.score_from is None else work.score_from - 1
            shared = {s: min(self._shared(s, work.tokens), last) for s in self._sequences}
            best = max(self._sequences, key=lambda s: shared[s])
            goes_on = best.work is None and shared[best] == best.known
            place = best if goes_on else min(idle, key=lambda s: (s.known > 0, s.used))
            self._place(work, place, best, shared[best])

    def _shared(self, sequence: Sequence, tokens: list[int]) -> int:
        pairs = zip(sequence.tokens[: sequence.known], tokens, strict=False)
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
        return sum(1 for _ in same)

    def _place(self, work: Work, place: Sequence, best: Sequence, shared: int) -> None:
        if place is best:
            llama_cpp.llama_memory_seq_rm(self._memory, place.id, shared, -1)
        else:
            llama_cpp.llama_memory_seq_rm(self._memory, place.id, -1, -1)
            if shared:
                llama_cpp.llama_memory_seq_cp(self._memory, best.id, place.id, 0, shared)
        # Nothing comes after the last token of a choice: it is scored, and need not be computed.
        tokens = work.tokens if work.score_from is None else work.tokens[:-1]
        place.tokens, place.known, place.work = [*tokens], shared, work
        place.used, work.computed = next(self._clock), len(tokens) - shared

    def _step(self) -> None:
        """One batch: the next token of every sequence that writes, and prompt tokens beside."""
        batch = self._batch
        batch.n_tokens = 0
        rows: list[tuple[Sequence, int]] = []
        busy = [s for s in self._sequences if s.work is not None]
        taken: list[tuple[Sequence, int]] = []
        for s in sorted(busy, key=lambda s: len(s.tokens) - s.known):
            end = min(len(s.tokens), s.known + BATCH - batch.n_tokens)
            for at in range(s.known, end):
                row = self._add(s, at)
                if row is not None:
                    rows.append((s, row))
            taken.append((s, end))
        while llama_cpp.llama_decode(self._context, batch) == 1:
            self._make_room()
        for s, end in taken:
            s.known = end
        for s, row in rows:
            self._take(s, row)
        for s in busy:
            if s.work is not None and s.work.done:
                self._finish(s)

    def _add(self, s: Sequence, at: int) -> int | None:
        """Adds a token to the batch; its row, if its logits are wanted."""
        batch, row = self._batch, self._batch.n_tokens
        assert s.work is not None
        first = len(s.tokens) if s.work.score_from is None else s.work.score_from
        wanted = at >= first - 1
        batch.token[row], batch.pos[row] = s.tokens[at], at
        batch.seq_id[row][0], batch.n_seq_id[row] = s.id, 1
        batch.logits[row] = wanted
        batch.n_tokens += 1
        return row if wanted else None

    def _take(self, s: Sequence, row: int) -> None:
        assert s.work is not None
        pointer = llama_cpp.llama_get_logits_ith(self._context, row)
        logits = np.ctypeslib.as_array(pointer, (self._vocabulary,))
        if s.work.score_from is not None:
            s.work.rows.append(logits.copy())
            return
        s.work.first = s.work.first or time.perf_counter()
        logits[self._tokenizer.eos_token_id] = -np.inf
        token = int(logits.argmax())
        s.work.written.append(token)
        s.work.left -= 1
        if s.work.left:
            s.tokens.append(token)

    def _make_room(self) -> None:
        idle = [s for s in self._sequences if s.work is None and s.known]
        if not idle:
            raise MemoryError("llama.cpp's memory is too small for what is running")
        oldest = min(idle, key=lambda s: s.used)
        llama_cpp.llama_memory_seq_rm(self._memory, oldest.id, -1, -1)
        oldest.tokens, oldest.known = [], 0

    def _finish(self, s: Sequence) -> None:
        work, s.work, s.used = s.work, None, next(self._clock)
        assert work is not None
        if work.score_from is None:
            text = self._tokenizer.decode(work.written)
            answer = Answer(text, len(work.written), work.first, computed=work.computed)
            work.job.answer.set_result(answer)
            return
        works = self._scored.get(work.job, [])  # none, when several ended in the same step
        if works and all(each.done for each in works):
            targets = [each.tokens[each.score_from :] for each in works]
            best = likeliest([each.rows for each in works], targets)
            computed = sum(each.computed for each in works)
            work.job.answer.set_result(Answer(work.job.choices[best], 0, computed=computed))
            del self._scored[work.job]

    def _write_object(self, job: Job) -> None:
        assert job.kind is not None
        schema = json.dumps(job.kind.model_json_schema())
        grammar = llama_cpp.LlamaGrammar.from_json_schema(schema, verbose=False)
        first, text, count = None, "", 0
        for piece in self._llama.create_completion(
            self._ids(job.prompt),
            max_tokens=job.max_tokens,
            temperature=0,
            grammar=grammar,
            stream=True,
        ):
            first = first or time.perf_counter()
            text += piece["choices"][0]["text"]
            count += 1
        job.answer.set_result(Answer(text, count, first))
