"""Finds out how each layer of a model attends, by watching one forward of a few tokens.

No table of architectures: each layer says what it wants in what it passes to the attention
function, and anything passed there that this runtime does not understand is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from agentrt.errors import UnsupportedModel
from agentrt.runtime.attention.base import LayerAttention
from agentrt.runtime.model import hook
from agentrt.runtime.model.context import independent_context
from agentrt.runtime.model.decoder import accepts, forward
from agentrt.runtime.model.masks import IrregularMask, window_of
from agentrt.runtime.model.probing import attend_to_self, probe_positions, probe_tokens, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import nn

_ATTENTION_TYPES = frozenset({"full_attention", "sliding_attention"})
# What a layer may pass besides q, k, v and the mask. The first three are read; `sliding_window`
# repeats what the mask says, and the mask is what the model's own attention obeys; the positions
# are already in q and k.
_READ = frozenset({"scaling", "softcap", "s_aux"})
_WITHOUT_EFFECT = frozenset({"sliding_window", "position_ids", "position_embeddings"})


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a model turned out to be. `attention[i]` is the module that attends as `layers[i]`."""

    attention: tuple[nn.Module, ...]
    layers: tuple[LayerAttention, ...]
    vocab_size: int
    context_length: int


def discover(module: nn.Module, *, name: str) -> Discovery:
    """Probes a transformers causal LM, and leaves it set to call our attention.

    Raises UnsupportedModel with every reason found, and InvalidRequest for a module that another
    Model is bound to.
    """
    hook.claim(module, name=name)
    _refuse_by_description(module, name)
    context_length = _described_context(module, name)
    recorder = _Recorder(context_length)
    vocab_size = _probe(module, recorder)
    if not recorder.layers:
        recorder.problems.append("no layer calls transformers' attention interface")
    if recorder.problems:
        raise UnsupportedModel(refusal(name, recorder.problems))
    context_length = independent_context(module, recorder.attention, context_length, name=name)
    return Discovery(tuple(recorder.attention), tuple(recorder.layers), vocab_size, context_length)


def _refuse_by_description(module: nn.Module, name: str) -> None:
    config = cast("Any", module).config
    problems: list[str] = []
    if getattr(config, "is_encoder_decoder", False):
        problems.append("it is an encoder-decoder")
    text = config.get_text_config(decoder=True)
    others = set(getattr(text, "layer_types", None) or ()) - _ATTENTION_TYPES
    if others:
        problems.append(f"it has layers of type {', '.join(sorted(others))}")
    if not accepts(module, "position_ids"):
        problems.append("its forward takes no position_ids, so its positions follow the batch")
    if problems:
        raise UnsupportedModel(refusal(name, problems))


def _described_context(module: nn.Module, name: str) -> int:
    text = cast("Any", module).config.get_text_config(decoder=True)
    length = getattr(text, "max_position_embeddings", None)
    if not isinstance(length, int) or length < 1:
        raise UnsupportedModel(
            refusal(name, [f"its configuration gives max_position_embeddings as {length!r}"])
        )
    return length


def _probe(module: nn.Module, recorder: _Recorder) -> int:
    """Runs the probing forward; returns the number of logits per row."""
    modules = list(module.modules())
    hook.bind(modules, recorder)
    cast("Any", module).set_attn_implementation(hook.PROBE)
    try:
        tokens, positions = probe_tokens(module), probe_positions(module)
        return forward(module, tokens, positions, positions[:1]).shape[-1]
    finally:
        hook.unbind(modules)
        cast("Any", module).set_attn_implementation(hook.RUN)


@dataclass(slots=True)
class _Recorder:
    """Notes how each layer attends and answers with each token attending to itself alone."""

    context_length: int
    attention: list[nn.Module] = field(default_factory=list["nn.Module"])
    layers: list[LayerAttention] = field(default_factory=list[LayerAttention])
    problems: list[str] = field(default_factory=list[str])

    def __call__(
        self,
        module: nn.Module,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        options: Mapping[str, Any],
    ) -> torch.Tensor:
        if module in self.attention:
            self._problem("is called twice in one forward, so its keys would overwrite each other")
        self.attention.append(module)
        self._refuse_unknown(options)
        self.layers.append(
            LayerAttention(
                num_heads=q.shape[1],
                num_kv_heads=k.shape[1],
                head_dim=q.shape[3],
                v_head_dim=v.shape[3],
                scale=_scale(options.get("scaling"), q.shape[3]),
                window=self._window(mask),
                softcap=options.get("softcap"),
                has_sinks=options.get("s_aux") is not None,
            )
        )
        return attend_to_self(module, q, k, v, mask, options)

    def _problem(self, what: str) -> None:
        self.problems.append(f"attention layer {len(self.layers)} {what}")

    def _refuse_unknown(self, options: Mapping[str, Any]) -> None:
        for key, value in options.items():
            if key in _READ or key in _WITHOUT_EFFECT:
                continue
            if key == "is_causal":
                if value is False:
                    self._problem("is not causal")
            elif _is_set(value):
                self._problem(f"passes {key!r} to attention, which is not understood")

    def _window(self, mask: torch.Tensor | None) -> int | None:
        rule = hook.rule_of(mask)
        if rule is None:
            made = "no mask" if mask is None else "a mask of the model's own making"
            self._problem(f"attends under {made}")
            return None
        try:
            return window_of(rule, self.context_length)
        except IrregularMask as irregular:
            self._problem(f"is neither causal nor a sliding window: {irregular}")
            return None


def _is_set(value: object) -> bool:
    """Whether an option asks for anything: dropout=0.0 and output_attentions=False do not."""
    return bool(value) if isinstance(value, bool | int | float) else value is not None


def _scale(scaling: float | torch.Tensor | None, head_dim: int) -> float:
    return head_dim**-0.5 if scaling is None else float(scaling)
