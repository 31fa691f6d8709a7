"""Engines in processes of their own, as the benchmark that compares them sees them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.report import console

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

START_S = 300
"""An engine that is not there by then is left out."""
DIED = {"failed": "its process died"}


class Worker:
    """An engine's process; what it cannot answer in time ends it, and the next question finds a
    new one."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self._threads = threads
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> bool:
        """Waits until the engine has loaded; False, saying why, where it cannot be had."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.worker", self.name, str(self._threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCHMARKS_VERBOSE") else subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(self._threads)},
        )
        told = self._told(START_S)
        if "ready" in told:
            return True
        console.print(f"[yellow]{self.name} is left out:[/] {told.get('missing', told)}")
        self.stop()
        return False

    def ask(self, *, limit: float | None = None, **what: Any) -> dict[str, Any]:
        """Has the engine do something (see `worker`); what became of it, at most `limit` seconds
        later."""
        if self._process is None and not self.start():
            return DIED
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.stop()
            return DIED
        return self._told(limit)

    def stop(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def _told(self, limit: float | None) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        answers = self._process.stdout  # one line for each question: none waits in its buffer
        if not select.select([answers], [], [], limit)[0]:
            self._process.kill()
            self.stop()
            return {"over_s": limit}
        line = answers.readline()
        if not line:
            self.stop()
            return DIED
        return json.loads(line)


@contextmanager
def started(names: Iterable[str], threads: int) -> Generator[list[Worker]]:
    """Those of the engines that can be had, until the end of the block."""
    workers: list[Worker] = []
    try:
        for name in names:
            worker = Worker(name, threads)
            if worker.start():
                workers.append(worker)
        yield workers
    finally:
        for worker in workers:
            worker.stop()
