"""Threads: the pool's promises, and torch kept to one where it would be in the way."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import torch

from agentrt.runtime.native import keep_torch_on_this_thread
from agentrt.runtime.native.build import load_library
from agentrt.runtime.native.kernels import Kernels
from agentrt.runtime.native.threads import usable_cores

if TYPE_CHECKING:
    from pathlib import Path


def test_more_threads_than_cores_and_many_callers_give_the_same_bits(build_dir: Path) -> None:
    """Callers that find the pool taken work alone; late threads find their job gone."""
    kernels = Kernels(load_library(build_dir), threads=8)
    packed = kernels.pack_f32([torch.randn(640, 192)])
    inputs = [torch.randn(rows, 192) for rows in (1, 3, 7, 20)]
    want = [Kernels(load_library(build_dir), threads=1).restore(packed.state())(x) for x in inputs]
    wrong: list[int] = []

    def call(which: int) -> None:
        for _ in range(200):
            if not torch.equal(packed(inputs[which]), want[which]):
                wrong.append(which)

    callers = [threading.Thread(target=call, args=(which,)) for which in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def _multiply_in_child(kernels: Kernels, state, x, answers) -> None:
    answers.put(kernels.restore(state)(x).numpy().tobytes())


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_forked_child_starts_its_own_threads(kernels: Kernels) -> None:
    packed, x = kernels.pack_f32([torch.randn(640, 192)]), torch.randn(20, 192)
    want = packed(x).numpy().tobytes()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_multiply_in_child, args=(kernels, packed.state(), x, answers))
    child.start()
    assert answers.get(timeout=60) == want
    child.join()


def test_torch_is_kept_to_the_asking_thread() -> None:
    before, inside = torch.get_num_threads(), []

    def ask() -> None:
        inside.append((keep_torch_on_this_thread(), torch.get_num_threads()))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert inside == [(True, 1)]
    assert torch.get_num_threads() == before


def test_counts_at_least_one_core() -> None:
    assert usable_cores() >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_counts_hardware_threads_of_a_core_once(monkeypatch, tmp_path: Path) -> None:
    from agentrt.runtime.native import threads

    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(threads, "_siblings", lambda cpu: f"{cpu % 2},{cpu % 2 + 2}")
    monkeypatch.setattr(threads, "_quota", lambda: sys.maxsize)
    assert usable_cores() == 2
    monkeypatch.setattr(threads, "_quota", lambda: 1)
    assert usable_cores() == 1
