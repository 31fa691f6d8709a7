"""Engines in processes of their own, as the benchmark that compares them sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.report import console

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable


@dataclass
class Worker:
    """An engine's process."""

    name: str
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, name: str, threads: int) -> Worker | None:
        """None where the engine cannot be had; says why."""
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.worker", name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCHMARKS_VERBOSE") else subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        worker = cls(name, process)
        told = worker.told()
        if "ready" in told:
            return worker
        console.print(f"[yellow]{name} is left out:[/] {told.get('missing', 'its process died')}")
        process.wait()
        return None

    def told(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": "its process died"}

    def ask(self, **what: Any) -> dict[str, Any]:
        """Has the engine do something (see `worker`); what became of it."""
        assert self.process.stdin is not None
        if self.process.poll() is not None:
            return {"failed": "its process died"}
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.told()

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def started(names: Iterable[str], threads: int) -> Generator[list[Worker]]:
    """Those of the engines that can be had, until the end of the block."""
    tried = [Worker.start(name, threads) for name in names]
    workers = [worker for worker in tried if worker is not None]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()
