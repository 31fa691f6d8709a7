from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf.quants import quantize

from agentrt.runtime.models.blocks import BlockFinder, Blocks

N, K = 12, 64
QUANTISED = [Kind.Q4_0, Kind.Q4_1, Kind.Q8_0]
Tensors = dict[str, tuple[np.ndarray, Kind]]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def finder(path: Path, tensors: Tensors) -> tuple[BlockFinder, dict[str, np.ndarray]]:
    """A finder over a file of these tensors, and their values as ggml's own reader gives them."""
    writer = gguf.GGUFWriter(path / "t.gguf", "llama")
    values: dict[str, np.ndarray] = {}
    for name, (weight, kind) in tensors.items():
        packed = quantize(weight, kind)
        writer.add_tensor(name, packed, raw_dtype=kind)
        values[name] = gguf.dequantize(packed, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return BlockFinder(gguf.GGUFReader(path / "t.gguf")), values


def weights(n: int = N) -> np.ndarray:
    return rng().normal(size=(n, K)).astype(np.float32)


def found(blocks: Blocks | None) -> Blocks:
    assert blocks is not None
    return blocks


@pytest.mark.parametrize("kind", QUANTISED)
def test_blocks_are_exact_and_typed(tmp_path: Path, kind: Kind) -> None:
    search, values = finder(tmp_path, {"w": (weights(), kind)})
    blocks = found(search.find(values["w"]))
    np.testing.assert_array_equal(blocks.dequantised(), values["w"])
    assert blocks.q.shape == (N, K)
    assert blocks.d.shape == (N, K // 32)
    assert blocks.d.dtype == np.float16
    if kind == Kind.Q8_0:
        assert blocks.q.dtype == np.int8
        assert blocks.m is None
    else:
        assert blocks.q.dtype == np.uint8
        assert blocks.q.max() <= 15
        assert blocks.m is not None
        assert blocks.m.shape == blocks.d.shape


@pytest.mark.parametrize("kind", QUANTISED)
def test_permuted_rows_are_found(tmp_path: Path, kind: Kind) -> None:
    search, values = finder(tmp_path, {"w": (weights(), kind)})
    weight = values["w"][rng().permutation(N)]
    np.testing.assert_array_equal(found(search.find(weight)).dequantised(), weight)


def test_merged_and_split_tensors_are_found(tmp_path: Path) -> None:
    w = weights(3 * N)
    search, values = finder(tmp_path, {"a": (w[:N], Kind.Q4_1), "b": (w[N:], Kind.Q4_1)})
    merged = np.concatenate([values["b"][::2], values["a"]])
    np.testing.assert_array_equal(found(search.find(merged)).dequantised(), merged)
    split = values["b"][3:7]
    np.testing.assert_array_equal(found(search.find(split)).dequantised(), split)


def test_a_weight_with_one_foreign_row_is_left_out(tmp_path: Path) -> None:
    search, values = finder(tmp_path, {"w": (weights(), Kind.Q4_1)})
    weight = values["w"].copy()
    weight[5, 9] = np.nextafter(weight[5, 9], np.float32(9))
    assert search.find(weight) is None
    assert search.find(values["w"].T.copy()) is None


def test_a_weight_of_mixed_kinds_is_left_out(tmp_path: Path) -> None:
    w = weights(2 * N)
    search, values = finder(tmp_path, {"a": (w[:N], Kind.Q4_1), "b": (w[N:], Kind.Q8_0)})
    assert search.find(np.concatenate([values["a"], values["b"]])) is None


def test_the_sign_of_zero_does_not_hide_a_row(tmp_path: Path) -> None:
    w = weights()
    w[:, ::3] = 0
    search, values = finder(tmp_path, {"w": (w, Kind.Q4_0)})
    weight = np.where(values["w"] == 0, np.float32(-0.0), values["w"])
    np.testing.assert_array_equal(found(search.find(weight)).dequantised(), weight)


def test_tensors_that_are_not_quantised_have_no_blocks(tmp_path: Path) -> None:
    search, values = finder(tmp_path, {"w": (weights(), Kind.F32)})
    assert search.find(values["w"]) is None
