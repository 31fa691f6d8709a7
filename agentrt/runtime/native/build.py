"""Compiles the C kernels on first use and finds them again on every later start.

A library's file name carries what it was built from and a digest of its own bytes, so a lookup is
one directory listing and one hash: no compiler runs, and a damaged file is seen and built anew.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.errors import NativeUnavailable, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HERE = Path(__file__).parent
# Contraction is off because it would let the compiler choose which products are fused, and with
# them the bits; the kernels fuse by name.
_FLAGS = (
    "-std=gnu11",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fwrapv",
    "-fPIC",
    "-pthread",
)
_FOR_THIS_CPU = (("-march=native",), ("-mcpu=native",), ())
_COMPILE_SECONDS = 300


def load_library(cache_dir: Path, *, defines: Sequence[str] = ()) -> ctypes.CDLL:
    """The kernels as a loaded library, compiled into `cache_dir` if they are not there yet.

    `defines` are preprocessor names to set. Raises NativeUnavailable when there is no library and
    no compiler that can make one, StorageError when the folder cannot be written.
    """
    compilers = list(_compilers())
    sources = _source_key(defines)
    found = _find(cache_dir, sources, compilers)
    if found is not None:
        return ctypes.CDLL(str(found))
    return ctypes.CDLL(str(_build(cache_dir, sources, compilers, defines)))


def _find(cache_dir: Path, sources: str, compilers: list[list[str]]) -> Path | None:
    """A sound library of these sources: by the preferred compiler, or by any if there is none."""
    compiler = _compiler_key(compilers[0]) if compilers else "*"
    for path in sorted(cache_dir.glob(f"kernels-{sources}-{compiler}-*.so")):
        try:
            if path.stem.rsplit("-", 1)[1] == _digest(path.read_bytes()):
                return path
        except OSError:  # removed or unreadable: build another
            continue
    return None


def _build(
    cache_dir: Path, sources: str, compilers: list[list[str]], defines: Sequence[str]
) -> Path:
    if not compilers:
        raise NativeUnavailable(
            "no C compiler was found ($CC, cc, gcc, clang, ziglang)",
            "install gcc or clang, or `pip install ziglang`",
        )
    complaints: list[str] = []
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir, prefix="build-") as folder:
            output = Path(folder) / "kernels.so"
            for compiler in compilers:
                complaint = _compile(compiler, defines, output)
                if complaint is None:
                    # Named after the preferred compiler, even where it failed and a later one did
                    # not: the next start looks there.
                    names = (sources, _compiler_key(compilers[0]), _digest(output.read_bytes()))
                    final = cache_dir / f"kernels-{'-'.join(names)}.so"
                    os.replace(output, final)
                    return final
                complaints.append(complaint)
    except OSError as error:
        raise StorageError(f"cannot write the compiled kernels to {cache_dir}: {error}") from error
    raise NativeUnavailable(
        "no C compiler could build the kernels:\n" + "\n".join(complaints),
        "set CC to a working gcc or clang",
    )


def _compile(compiler: list[str], defines: Sequence[str], output: Path) -> str | None:
    """Builds `output`; answers None, or what the compiler said."""
    said = ""
    for cpu in _FOR_THIS_CPU:
        flags = [*_FLAGS, *cpu, *(f"-D{name}" for name in defines)]
        objects = [output.with_name(source.stem + ".o") for source in _sources(".c")]
        commands = [
            [*compiler, *flags, "-c", str(source), "-o", str(target)]
            for source, target in zip(_sources(".c"), objects, strict=True)
        ]
        link = [*compiler, *flags, "-shared", *map(str, objects), "-o", str(output), "-lm"]
        try:
            complaint = _run(commands) or _run([link])
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{shlex.join(compiler)}: {error}"
        if not complaint:
            return None
        said = said or complaint[-1000:]
    return f"{shlex.join(compiler)}: {said}"


def _run(commands: list[list[str]]) -> str:
    """Runs the commands side by side; what those that failed wrote, or nothing."""
    running = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    complaints: list[str] = []
    try:
        for process in running:
            _, said = process.communicate(timeout=_COMPILE_SECONDS)
            if process.returncode:
                complaints.append(said.strip() or f"exit status {process.returncode}")
    finally:
        for process in running:
            process.kill()
            process.wait()
    return "\n".join(complaints)


def _compilers() -> Iterator[list[str]]:
    """Commands of the C compilers on this machine, the preferred one first."""
    wanted = os.environ.get("CC", "")
    for command in ([*shlex.split(wanted)] if wanted else [], ["cc"], ["gcc"], ["clang"]):
        path = shutil.which(command[0]) if command else None
        if path:
            yield [path, *command[1:]]
    if importlib.util.find_spec("ziglang") is not None:
        # zig traps undefined behaviour in C unless told not to; the others do not by default.
        yield [sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=undefined"]


def _compiler_key(command: list[str]) -> str:
    """Tells compilers and their versions apart without running them."""
    binary = Path(command[0]).resolve()
    stat = binary.stat()
    return _digest("\0".join([str(binary), *command[1:], f"{stat.st_size} {stat.st_mtime}"]))


def _source_key(defines: Sequence[str]) -> str:
    """What the library is made of: the sources, the flags and the processor."""
    parts = [path.name.encode() + b"\0" + path.read_bytes() for path in _sources(".c", ".h")]
    flags = " ".join([*_FLAGS, *defines, platform.machine(), sys.platform, _processor()])
    return _digest(b"\0".join([*parts, flags.encode()]))


def _sources(*suffixes: str) -> list[Path]:
    return sorted(path for path in _HERE.iterdir() if path.suffix in suffixes)


def _processor() -> str:
    """The features that -march=native would use: a cache folder may be shared by machines."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read(8192).splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "\n".join(line for line in lines if line.startswith(wanted))


def _digest(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]
