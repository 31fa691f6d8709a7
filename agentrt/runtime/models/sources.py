"""What a model may be given as, and where its converted form lives in the cache."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.cachefolder import cache_dir
from agentrt.errors import InvalidRequest, ModelNotFound, StorageError
from agentrt.runtime.models.fetch import PROVIDED, PULL, fetched
from agentrt.runtime.models.files import ModelFiles, load_files
from agentrt.runtime.models.storage import storage_errors
from agentrt.runtime.models.store import damaged, derived, forget, is_whole, stored_names

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1
"""Part of every key: raised when what `convert` writes changes."""

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
HUB_FILES = ["*.json", "*.safetensors", "*.bin", "*.model", "*.jinja", "*.txt"]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A model's place in the cache, and how to come by its source when that place is empty."""

    name: str
    key: str
    source: Callable[[], tuple[Path, str | None]]

    @property
    def entry(self) -> str:
        return f"{self.name}-{self.key}"


def resolve(model: str | Path | None = None) -> ModelFiles:
    """The files of a model, fetched and converted on first use and only looked up later.

    None is the provided model. Otherwise a local folder (config.json with safetensors or .bin), a
    .gguf file, or a hub id such as "owner/name". Raises ModelNotFound, UnsupportedModel,
    InvalidRequest, ModelCorrupt or StorageError.
    """
    return _convert(_plan(model))


def pull(model: str | Path | None = None) -> ModelFiles:
    """Like `resolve`, and also reads every stored file and makes anew what is damaged.

    What others derived from the model and keep in its folder is checked as well; where it is
    damaged it is removed, and made when it is next wanted.
    """
    plan = _plan(model)
    if damaged(models_dir(), plan.entry):
        if model is None and damaged(cache_dir() / "downloads", PROVIDED.file_name):
            forget(cache_dir() / "downloads", PROVIDED.file_name)
        forget(models_dir(), plan.entry)
    files = _convert(plan)
    for name in stored_names(files.folder):  # what was derived from the model, and lies beside it
        if damaged(files.folder, name):
            forget(files.folder, name)
    return files


def models_dir() -> Path:
    """The cache folder with one folder per converted model."""
    return cache_dir() / "models"


def is_stored(model: str | Path | None = None) -> bool:
    """The model is converted and whole, so that starting it needs neither network nor time."""
    return is_whole(models_dir(), _plan(model).entry)


def _convert(plan: _Plan) -> ModelFiles:
    def build(out: Path) -> None:
        folder, gguf = plan.source()
        # transformers and torch are imported only when there is something to convert.
        from agentrt.runtime.models.convert import Source, convert

        convert(Source(plan.name, folder, gguf), out)

    folder = derived(models_dir(), plan.entry, build)
    return load_files(folder)


def _plan(model: str | Path | None) -> _Plan:
    if model is None:
        return _provided()
    try:
        path = Path(model).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError) as error:  # a name too long, a folder closed to us, no such user
        raise ModelNotFound(f"{model} cannot be looked up ({error})") from error
    if is_folder:
        return _local_folder(path.absolute())
    if is_file:
        return _gguf_file(path.absolute())
    if isinstance(model, Path) or not HUB_ID.fullmatch(model) or model.endswith(".gguf"):
        raise ModelNotFound(
            f"there is no file or folder {path.absolute()}; a model is given as a folder with "
            "config.json and weights, a .gguf file, a hub id, or nothing for the provided one"
        )
    return _local_folder(_hub_snapshot(model), name=model.replace("/", "--"))


def _provided() -> _Plan:
    def source() -> tuple[Path, str]:
        path = fetched()
        return path.parent, path.name

    return _Plan(PROVIDED.name, _key(PROVIDED.sha256), source)


def _gguf_file(path: Path) -> _Plan:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise InvalidRequest(
            f"{path} is not a GGUF file (it starts with {magic!r}); for a model in transformers' "
            "format give its folder"
        )
    return _Plan(path.stem, _key(_stat(path)), lambda: (path.parent, path.name))


def _local_folder(folder: Path, name: str | None = None) -> _Plan:
    if not (folder / "config.json").is_file():
        raise ModelNotFound(f"{folder} has no config.json, so it is no model folder")
    weights = _weight_files(folder)
    small = [p for p in folder.iterdir() if p.suffix in {".json", ".jinja", ".model", ".txt"}]
    key = _key(*(_stat(path) for path in sorted({*weights, *small})))
    return _Plan(name or folder.name, key, lambda: (folder, None))


def _weight_files(folder: Path) -> list[Path]:
    """The files transformers would read. Raises ModelNotFound if there are none, or some lack."""
    for single in ("model.safetensors", "pytorch_model.bin"):
        index = folder / f"{single}.index.json"
        if (folder / single).is_file():
            return [folder / single]
        if index.is_file():
            shards = sorted({*json.loads(index.read_bytes())["weight_map"].values()})
            if absent := [name for name in shards if not (folder / name).is_file()]:
                raise ModelNotFound(
                    f"{folder} lacks {len(absent)} of {len(shards)} weight files, {absent[0]} first"
                )
            return [folder / name for name in shards]
    raise ModelNotFound(
        f"{folder} has no weights (model.safetensors, pytorch_model.bin or an index of either)"
    )


def _hub_snapshot(model: str) -> Path:
    """The model's folder in the hub's own cache, downloaded if it is not there whole."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, allow_patterns=HUB_FILES, local_files_only=True))
        _weight_files(folder)
        return folder
    except (LocalEntryNotFoundError, ModelNotFound):
        pass  # not there, or only in part: ask the hub
    except HFValidationError as error:
        raise ModelNotFound(f"{model!r} is neither a path that exists nor a hub id") from error
    try:
        with storage_errors(Path(HF_HUB_CACHE)):
            return Path(snapshot_download(model, allow_patterns=HUB_FILES))
    except StorageError:
        raise
    except (HfHubHTTPError, OSError) as error:
        raise ModelNotFound(
            f"there is no local file or folder {model}, and the hub did not give it: "
            f"{_in_short(error)}. Check the name; once the hub can be reached, run `{PULL} {model}`"
        ) from error


def _in_short(error: Exception) -> str:
    """The first sentence of what a hub client says, which goes on for paragraphs."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    said = re.split(r"(?<=\w)\.(?:\s|$)", first.removeprefix("Got: "))[0]
    return said[:160].rstrip(": ") or type(error).__name__


def _stat(path: Path) -> str:
    facts = path.stat()
    return f"{os.fspath(path)}\0{facts.st_size}\0{facts.st_mtime_ns}"


def _key(*facts: str) -> str:
    """Changes with the source, with this conversion, and with the transformers that does it."""
    versions = (str(VERSION), importlib.metadata.version("transformers"))
    return hashlib.sha256("\0".join((*facts, *versions)).encode()).hexdigest()[:12]
