"""Weights into the layouts that the kernels read: done once per model, saved, then memory-mapped.

Quantised weights are affine in blocks of 32 along the inputs: w = scale * quant + minimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from agentrt.errors import InvalidRequest

BLOCK = 32
PANEL = 8
STRIP = 16
_PAIRS = 16


@dataclass(frozen=True, slots=True)
class Q4Weight:
    """A 4-bit weight: quants uint8 [N, K] in 0..15; scales and minima float16 [N, K / 32]."""

    quants: torch.Tensor
    scales: torch.Tensor
    minima: torch.Tensor

    def dequantise(self) -> torch.Tensor:
        """The weight these numbers stand for, float64 [N, K], exactly."""
        return _affine(self.quants, self.scales, self.minima)


@dataclass(frozen=True, slots=True)
class Q8Weight:
    """An 8-bit weight: quants int8 [N, K]; scales float16 [N, K / 32]."""

    quants: torch.Tensor
    scales: torch.Tensor

    def dequantise(self) -> torch.Tensor:
        """The weight these numbers stand for, float64 [N, K], exactly."""
        return _affine(self.quants, self.scales, torch.zeros_like(self.scales))


def _affine(quants: torch.Tensor, scales: torch.Tensor, minima: torch.Tensor) -> torch.Tensor:
    blocks = quants.double().unflatten(-1, (-1, BLOCK))
    return (blocks * scales.double()[..., None] + minima.double()[..., None]).flatten(-2)


def quantise_q8(weight: torch.Tensor) -> Q8Weight:
    """The nearest 8-bit weight, scale = max|w| / 127 in each block, as GGUF's Q8_0 does.

    weight [N, K] of any float dtype, K a multiple of 32.
    """
    blocks = _blocks(weight.float())
    scales = (blocks.abs().amax(-1) / 127).half()
    steps = torch.where(scales > 0, 1 / scales.float(), 0.0)
    quants = (blocks * steps[..., None]).round().clamp(-127, 127)
    return Q8Weight(quants.to(torch.int8).flatten(-2), scales)


def pack_q4(weight: Q4Weight) -> torch.Tensor:
    """uint8 [N / 8, K / 32, 160]; the layout is drawn at the top of linear_int.c."""
    pairs = _panels(weight.quants).unflatten(-1, (_PAIRS // 4, 4, 2))  # panel, channel, block, ...
    nibbles = pairs.permute(0, 2, 3, 1, 5, 4)  # panel, block, 4 pairs, channel, 2, pair of the 4
    packed = nibbles[..., 0::2] | (nibbles[..., 1::2] << 4)
    return torch.cat(
        [packed.flatten(2), _scale_bytes(weight.scales), _scale_bytes(weight.minima)], -1
    )


def pack_q8(weight: Q8Weight) -> torch.Tensor:
    """uint8 [N / 8, K / 32, 272]; the layout is drawn at the top of linear_int.c."""
    pairs = _panels(weight.quants).unflatten(-1, (_PAIRS, 2))  # panel, channel, block, pair, 2
    packed = pairs.permute(0, 2, 3, 1, 4).contiguous().view(torch.uint8)
    return torch.cat([packed.flatten(2), _scale_bytes(weight.scales)], -1)


def pack_f32(weight: torch.Tensor) -> torch.Tensor:
    """float32 [N / 16, K, 16] of a weight [N, K] of any float dtype."""
    padded = _pad_rows(weight.float())
    return padded.unflatten(0, (-1, STRIP)).transpose(1, 2).contiguous()


def _panels(quants: torch.Tensor) -> torch.Tensor:
    """[N, K] as [N / 8, 8, K / 32, 32]."""
    return _blocks(_pad_rows(quants)).unflatten(0, (-1, PANEL))


def _blocks(weight: torch.Tensor) -> torch.Tensor:
    """[N, K] as [N, K / 32, 32]."""
    if weight.shape[-1] % BLOCK:
        raise InvalidRequest(
            f"a quantised weight needs inputs in blocks of {BLOCK} and this one has "
            f"{weight.shape[-1]} inputs; pack it as float32"
        )
    return weight.unflatten(-1, (-1, BLOCK))


def _scale_bytes(scales: torch.Tensor) -> torch.Tensor:
    """float16 [N, K / 32] as bytes [N / 8, K / 32, 16]."""
    panels = _pad_rows(scales.half()).unflatten(0, (-1, PANEL)).transpose(1, 2)
    return panels.contiguous().view(torch.uint8)


def _pad_rows(weight: torch.Tensor) -> torch.Tensor:
    """Adds zero rows up to a whole number of strips."""
    missing = -weight.shape[0] % STRIP
    return torch.nn.functional.pad(weight, (0, 0, 0, missing)) if missing else weight
