"""From what a model comes as to what is loaded: run once per model, by transformers itself.

Nothing here knows an architecture. transformers reads the source and names the weights; this module
writes down what it made, so that later starts need neither the source's format nor the conversion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import transformers

from agentrt.errors import InvalidRequest, ModelCorrupt, UnsupportedModel
from agentrt.runtime.models.blocks import BlockFinder
from agentrt.runtime.models.files import BLOCKS, TOKENIZER, WEIGHTS, write_facts
from agentrt.runtime.models.progress import announce, progress
from agentrt.runtime.models.tokenization import eos_token_ids, ready_tokenizer, templates_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

State = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Source:
    """What is converted: a folder of transformers' own format, or with `gguf` one file in it."""

    name: str
    folder: Path
    gguf: str | None = None

    @property
    def described(self) -> str:
        return str(self.folder / self.gguf if self.gguf else self.folder)

    @property
    def arguments(self) -> dict[str, Any]:
        """What every `from_pretrained` is given beside the folder."""
        file = {"gguf_file": self.gguf} if self.gguf else {}
        return {"local_files_only": True, **file}


def convert(source: Source, out: Path) -> None:
    """Writes the converted model into the new folder `out`.

    Raises UnsupportedModel for what transformers or this runtime cannot load, ModelCorrupt when
    weights are missing, and lets errors of the disk through.
    """
    announce(f"preparing {source.name} for its first start")
    model, tokenizer = _load(source)
    out.mkdir()
    state = _distinct(model.state_dict())
    own = [] if source.gguf else _serving_files(state, source.folder)
    if not own:
        with progress(f"writing {source.name}", None):
            safetensors.torch.save_file(state, out / WEIGHTS, metadata={"format": "pt"})
    if source.gguf:
        _write_blocks(source, model, out)
    config = model.config
    # The weights written here are whole again, however the source had packed them.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.architectures = [type(model).__name__]
    config.save_pretrained(out)
    tokenizer.backend_tokenizer.save(str(out / TOKENIZER))
    special = {k: v for k, v in tokenizer.special_tokens_map.items() if isinstance(v, str)}
    templates = templates_of(tokenizer)
    write_facts(
        out,
        {
            "name": source.name,
            "source": source.described,
            "transformers": transformers.__version__,
            "weights": [str(path) for path in own] or [WEIGHTS],
            "dtype": str(model.dtype).removeprefix("torch."),
            "context_length": _context_length(source, config),
            "eos_token_ids": eos_token_ids(model, tokenizer, out / TOKENIZER, templates, special),
            "special_tokens": special,
            "chat_templates": templates,
        },
    )


def _load(source: Source) -> tuple[Any, Any]:
    """The model, in fp32 from a GGUF file and else in its own dtype, and its fast tokenizer."""
    _refuse_by_config(source)
    options: dict[str, Any] = {"dtype": "auto", **source.arguments}
    if source.gguf:
        options["dtype"] = torch.float32
        if packed := getattr(transformers, "GgufConfig", None):
            options["quantization_config"] = packed(dequantize=True)
    bars = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        model, loading = transformers.AutoModelForCausalLM.from_pretrained(
            source.folder, output_loading_info=True, **options
        )
        tokenizer = ready_tokenizer(source.folder, source.gguf, source.arguments)
    except (ValueError, KeyError, ImportError) as error:
        raise UnsupportedModel(
            f"{source.described} cannot be loaded by transformers {transformers.__version__}: {error}"
        ) from error
    finally:
        if shown:
            bars.enable_progress_bar()
    if missing := sorted(loading["missing_keys"]):
        raise ModelCorrupt(
            f"{source.described} lacks {len(missing)} of its model's weights, {missing[0]} first"
        )
    return model.eval(), tokenizer


def _refuse_by_config(source: Source) -> None:
    try:
        config = transformers.AutoConfig.from_pretrained(source.folder, **source.arguments)
    except (ValueError, KeyError) as error:
        raise UnsupportedModel(
            f"{source.described} is of no kind transformers {transformers.__version__} knows: {error}"
        ) from error
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel(
            f"{source.described} is an encoder-decoder model ({config.model_type}); "
            "this runtime decodes decoder-only models"
        )
    packing = getattr(config, "quantization_config", None)
    if packing and not source.gguf:
        method = packing.get("quant_method") if isinstance(packing, dict) else packing
        raise UnsupportedModel(
            f"the weights of {source.described} are quantised with {method}; "
            "give the unquantised model, or a GGUF file of it"
        )


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
    files = sorted(folder.glob("*.safetensors"))
    missing = set(state)
    serving: list[Path] = []
    for path in files:
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


def _write_blocks(source: Source, model: Any, out: Path) -> None:
    linear = {
        f"{name}.weight": module.weight
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
    }
    finder = BlockFinder(source.folder / (source.gguf or ""))
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    with progress(f"finding the quantised blocks of {source.name}", len(linear)) as report:
        for done, (name, weight) in enumerate(linear.items()):
            report(done)
            if blocks := finder.find(weight.detach().numpy()):
                tensors |= {f"{name}.q": blocks.q, f"{name}.d": blocks.d}
                if blocks.m is not None:
                    tensors[f"{name}.m"] = blocks.m
    if tensors:
        safetensors.numpy.save_file(tensors, out / BLOCKS)


def _context_length(source: Source, config: Any) -> int:
    text = config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        if isinstance(length := getattr(text, name, None), int):
            return length
    raise InvalidRequest(
        f"the config of {source.described} does not say how many positions the model has; "
        "add max_position_embeddings to it"
    )
