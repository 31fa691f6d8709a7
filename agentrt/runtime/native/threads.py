"""How many threads the kernels use, and how torch is kept off their cores."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import torch


def usable_cores() -> int:
    """Physical cores that this process may run on, within a container's quota.

    Two hardware threads of a core share its vector units, so the second adds nothing here.
    """
    if sys.platform != "linux":
        return max(1, torch.get_num_threads())  # torch counts physical cores there
    allowed = os.sched_getaffinity(0)
    cores = {_siblings(cpu) for cpu in allowed}
    return max(1, min(len(cores), _quota()))


def _siblings(cpu: int) -> str:
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return path.read_text().strip()
    except OSError:
        return str(cpu)


def _quota() -> int:
    """Cores' worth of time that the control group grants (cgroup v2's cpu.max)."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return sys.maxsize
    return sys.maxsize if limit == "max" else max(1, round(int(limit) / int(period)))


def keep_torch_on_this_thread() -> bool:
    """Makes torch compute on the calling thread alone, for this thread only; True if it does now.

    OpenMP's threads spin for milliseconds after each of torch's operators, on the cores that the
    kernels are about to use. `torch.set_num_threads` would change every thread of the process.
    """
    torch.get_num_threads()  # sets this thread's count from the process's, once; ours comes after
    for path in _openmp_libraries():
        try:
            ctypes.CDLL(path).omp_set_num_threads(1)
        except (OSError, AttributeError):
            continue
    return torch.get_num_threads() == 1


def _openmp_libraries() -> list[str]:
    names = ("libgomp", "libomp", "libiomp")
    if sys.platform == "linux":
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            mapped = {line.split(maxsplit=5)[-1].strip() for line in maps if "omp" in line}
        return sorted(path for path in mapped if Path(path).name.startswith(names))
    folder = Path(torch.__file__).parent / "lib"
    return sorted(str(path) for path in folder.glob("lib*omp*") if path.name.startswith(names))
