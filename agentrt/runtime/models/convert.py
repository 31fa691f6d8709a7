"""From what a model comes as to what is loaded: run once per model, by transformers itself.

Nothing here knows an architecture. transformers reads the source and names the weights; this module
writes down what it made, so that later starts need neither the source's format nor the conversion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gguf
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import transformers

from agentrt.errors import InvalidRequest, ModelCorrupt, UnsupportedModel
from agentrt.runtime.models.blocks import BlockFinder
from agentrt.runtime.models.files import BLOCKS, TOKENIZER, WEIGHTS, write_facts
from agentrt.runtime.models.progress import progress
from agentrt.runtime.models.quiet import without_bars
from agentrt.runtime.models.storage import require_space
from agentrt.runtime.models.tokenization import (
    digit_by_digit,
    eos_token_ids,
    fast_tokenizer,
    templates_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np

    State = dict[str, torch.Tensor]

VERSION = transformers.__version__


@dataclass(frozen=True, slots=True)
class Source:
    """What is converted: a folder of transformers' own format, or with `gguf` one file in it."""

    name: str
    folder: Path
    gguf: str | None = None

    def __str__(self) -> str:
        return str(self.folder / self.gguf if self.gguf else self.folder)

    @property
    def arguments(self) -> dict[str, Any]:
        """What every `from_pretrained` is given beside the folder."""
        file = {"gguf_file": self.gguf} if self.gguf else {}
        return {"local_files_only": True, **file}


def convert(source: Source, out: Path) -> None:
    """Writes the converted model into the new folder `out`.

    Raises UnsupportedModel for what transformers or this runtime cannot load, InvalidRequest for a
    file that is no model, ModelCorrupt when weights are missing; errors of the disk pass through.
    """
    with progress(f"reading {source.name} for its first start", None):
        reader = _open_gguf(source) if source.gguf else None
        config = _checked_config(source)
        model = _load_model(source, config)
        tokenizer = _load_tokenizer(source, reader)
    out.mkdir()
    weights = _write_weights(source, model, out)
    if reader:
        _write_blocks(source, model, reader, out)
    _write_config(model, out)
    tokenizer.backend_tokenizer.save(str(out / TOKENIZER))
    special = {k: v for k, v in tokenizer.special_tokens_map.items() if isinstance(v, str)}
    templates = templates_of(tokenizer)
    write_facts(
        out,
        {
            "name": source.name,
            "source": str(source),
            "transformers": VERSION,
            "weights": weights,
            "dtype": str(model.dtype).removeprefix("torch."),
            "context_length": _context_length(source, model.config),
            "eos_token_ids": eos_token_ids(model, tokenizer, out / TOKENIZER, templates, special),
            "special_tokens": special,
            "chat_templates": templates,
        },
    )


def _open_gguf(source: Source) -> gguf.GGUFReader:
    """The parsed file. The reader fails in many ways on a damaged file, none of them its own."""
    try:
        return gguf.GGUFReader(str(source))
    except Exception as error:
        raise InvalidRequest(
            f"{source} cannot be read as GGUF ({error}); it may be cut short: fetch it again"
        ) from error


def _checked_config(source: Source) -> Any:
    try:
        config = transformers.AutoConfig.from_pretrained(source.folder, **source.arguments)
    except (ValueError, KeyError) as error:
        raise UnsupportedModel(
            f"{source} is of no kind that transformers {VERSION} knows: {error}"
        ) from error
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel(
            f"{source} is an encoder-decoder model ({config.model_type}); "
            "this runtime decodes decoder-only models"
        )
    packing = getattr(config, "quantization_config", None)
    if packing and not source.gguf:
        method = packing.get("quant_method") if isinstance(packing, dict) else packing
        raise UnsupportedModel(
            f"the weights of {source} are quantised with {method}; "
            "give the unquantised model, or a GGUF file of it"
        )
    return config


def _load_model(source: Source, config: Any) -> Any:
    """The model, in fp32 from a GGUF file and else in its own dtype, with every weight it has."""
    options: dict[str, Any] = {"dtype": "auto", **source.arguments}
    if source.gguf:
        options["dtype"] = torch.float32
        if packed := getattr(transformers, "GgufConfig", None):
            options["quantization_config"] = packed(dequantize=True)
    load: Any = transformers.AutoModelForCausalLM.from_pretrained
    try:
        with without_bars():
            model, loading = load(source.folder, config=config, output_loading_info=True, **options)
    except (ValueError, KeyError, ImportError) as error:
        raise UnsupportedModel(
            f"transformers {VERSION} cannot load {source} as a decoder: {error}"
        ) from error
    if missing := sorted(loading["missing_keys"]):
        raise ModelCorrupt(f"{source} lacks {len(missing)} weights of its model: {missing[0]}, ...")
    return model.eval()


def _load_tokenizer(source: Source, reader: gguf.GGUFReader | None) -> Any:
    try:
        tokenizer = fast_tokenizer(source.folder, source.arguments)
    except (ValueError, KeyError, ImportError) as error:
        raise UnsupportedModel(
            f"transformers {VERSION} cannot load the tokenizer of {source}: {error}"
        ) from error
    if reader:
        digit_by_digit(tokenizer, reader)
    return tokenizer


def _write_weights(source: Source, model: Any, out: Path) -> list[str]:
    """The files that hold the weights: the source's own if they serve, else one written here."""
    state = _distinct(model.state_dict())
    if not source.gguf and (own := _serving_files(state, source.folder)):
        return [str(path) for path in own]
    require_space(out, sum(tensor.nbytes for tensor in state.values()))
    with progress(f"writing the weights of {source.name}", None):
        safetensors.torch.save_file(state, out / WEIGHTS, metadata={"format": "pt"})
    return [WEIGHTS]


def _distinct(state: State) -> State:
    """The state with tied tensors once, each contiguous in memory of its own."""
    out: State = {}
    seen: set[tuple[int, torch.Size, tuple[int, ...]]] = set()
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride())
        if place in seen and tensor.numel():
            continue
        seen.add(place)
        alone = tensor.untyped_storage().nbytes() == tensor.nbytes
        out[name] = tensor.contiguous() if alone else tensor.contiguous().clone()
    return out


def _serving_files(state: State, folder: Path) -> Sequence[Path]:
    """The source's own safetensors files, if they hold `state` name for name and bit for bit."""
    missing = set(state)
    serving: list[Path] = []
    for path in sorted(folder.glob("*.safetensors")):
        with safetensors.safe_open(path, framework="pt") as file:
            here = missing.intersection(file.keys())
            for name in here:
                stored = file.get_tensor(name)
                if stored.dtype != state[name].dtype or not torch.equal(stored, state[name]):
                    return []
        if here:
            serving.append(path.absolute())
            missing -= here
    return [] if missing else serving


def _write_blocks(source: Source, model: Any, reader: gguf.GGUFReader, out: Path) -> None:
    linear = {
        f"{name}.weight": module.weight
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
    }
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    with progress(f"finding the quantised blocks of {source.name}", len(linear)) as report:
        finder = BlockFinder(reader)
        for done, (name, weight) in enumerate(linear.items()):
            report(done)
            if blocks := finder.find(weight.detach().numpy()):
                tensors |= {f"{name}.q": blocks.q, f"{name}.d": blocks.d}
                if blocks.m is not None:
                    tensors[f"{name}.m"] = blocks.m
        if tensors:
            require_space(out, sum(tensor.nbytes for tensor in tensors.values()))
            safetensors.numpy.save_file(tensors, out / BLOCKS)


def _write_config(model: Any, out: Path) -> None:
    config = model.config
    # What is written here is plain weights, however the source had packed them.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.architectures = [type(model).__name__]
    config.save_pretrained(out)


def _context_length(source: Source, config: Any) -> int:
    text = config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        if isinstance(length := getattr(text, name, None), int):
            return length
    raise InvalidRequest(
        f"the config of {source} does not say how many positions the model has; "
        "add max_position_embeddings to it"
    )
