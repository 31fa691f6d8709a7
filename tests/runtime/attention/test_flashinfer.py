"""The flashinfer backend, driven through a model of FlashInfer, against TorchAttention."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.errors import InvalidRequest, UnsupportedModel
from agentrt.runtime.attention import flashinfer_plan as fp
from agentrt.runtime.attention import flashinfer_wrappers
from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.flashinfer import FlashInferAttention
from agentrt.runtime.attention.reference import TorchAttention
from tests.runtime.attention import flashinfer_api as api
from tests.runtime.attention import flashinfer_model as model
from tests.runtime.attention.cases import (
    CPU,
    Seq,
    World,
    build,
    layer,
    random_layout,
    two_layers,
    world,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.runtime.batch import Layout

FEATURES = {
    "plain": {},
    "one head a KV head": {"num_kv_heads": 4},
    "many heads a KV head": {"num_heads": 20, "num_kv_heads": 1},
    "window of one": {"window": 1},
    "window": {"window": 9},
    "softcap": {"softcap": 2.0},
    "sinks": {"has_sinks": True},
    "everything": {"window": 11, "softcap": 3.0, "has_sinks": True},
}
# The model computes in float64 and rounds what it returns, a prefix and its rest each by itself.
DTYPE = torch.float16
CLOSE = {"rtol": 2**-9, "atol": 2e-3}
ROOM = torch.zeros(1 << 24, dtype=torch.uint8)


@pytest.fixture(scope="module", autouse=True)
def small_workspaces() -> Iterator[None]:
    """The model splits no prefix, so what is kept for that need not be cleared in every test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flashinfer_wrappers, "WORKSPACE_BYTES", 64)
        yield


def wide(**changes: object):
    return layer(**{"num_heads": 4, "num_kv_heads": 2, "head_dim": 64, "v_head_dim": 64, **changes})


def both(w: World) -> tuple[torch.Tensor, torch.Tensor]:
    want = w.run(TorchAttention(w.cache))
    return w.run(FlashInferAttention(w.cache, library=model)), want


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys())
@pytest.mark.parametrize("decode", [False, True], ids=["mixed", "decode"])
@pytest.mark.parametrize("groups", [False, True], ids=["alone", "groups"])
def test_equals_the_reference(features: dict[str, object], decode: bool, groups: bool) -> None:
    for seed in range(3):
        layout = random_layout(seed, decode=decode, groups=groups)
        w = world(wide(**features), layout, seed=seed, dtype=DTYPE)
        got, want = both(w)
        assert got.is_contiguous()
        torch.testing.assert_close(got, want, **CLOSE)


@settings(deadline=None, max_examples=40)
@given(
    seqs=st.lists(st.builds(Seq, st.integers(1, 40), st.integers(0, 60)), min_size=1, max_size=10),
    long=st.integers(1, 60),
    split=st.integers(1, 30),
)
def test_split_rows_equal_the_reference(seqs: list[Seq], long: int, split: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fp, "LONG", long)
        patch.setattr(fp, "SPLIT", split)
        got, want = both(world(wide(), build(seqs), dtype=torch.float16))
    torch.testing.assert_close(got, want, **CLOSE)


def test_a_group_of_some_rows_is_merged_into_those() -> None:
    family = [Seq(1, 30), *[Seq(n, 30, like=1, shared=28) for n in (1, 4, 25)]]
    layout = build([Seq(7, 3), *family, Seq(1, 9)], groups=[(1, 5, 28)])
    got, want = both(world(wide(has_sinks=True), layout, dtype=DTYPE))
    torch.testing.assert_close(got, want, **CLOSE)


def test_a_prefix_is_one_sequence_of_the_prefix_part() -> None:
    layout = build([Seq(1, 30), *[Seq(1, 30, like=0, shared=28)] * 3], groups=[(0, 4, 28)])
    own, prefix = fp.parts(layout, group_size=2, share=True)
    assert prefix.route == fp.PREFIX
    assert prefix.qo_indptr.tolist() == [0, 4]
    assert prefix.kv_indices.tolist() == layout.kv_slots[:28].tolist()
    assert np.diff(own.kv_indptr).tolist() == [3, 3, 3, 3]
    # 28 + 4 * 3 slots are read instead of 4 * 31.
    assert len(prefix.kv_indices) + len(own.kv_indices) == 40


@pytest.mark.parametrize(
    "changes", [{"window": 40}, {"num_heads": 256, "num_kv_heads": 1}], ids=["window", "heads"]
)
def test_layers_that_cannot_share_attend_to_every_sequence_whole(changes: dict[str, int]) -> None:
    layout = build([Seq(1, 30), Seq(1, 30, like=0, shared=28)], groups=[(0, 2, 28)])
    got, want = both(world(wide(**changes), layout, dtype=DTYPE))
    torch.testing.assert_close(got, want, **CLOSE)
    assert not fp.Kind.of(wide(**changes)).shares


def test_layers_of_two_kinds_in_one_model() -> None:
    layout = random_layout(4, groups=True)
    specs = [wide(), wide(window=7, num_kv_heads=4)]
    cache, inputs = two_layers(specs, layout, DTYPE)
    backend, reference = FlashInferAttention(cache, library=model), TorchAttention(cache)
    backend.plan(layout)
    reference.plan(layout)
    for index in (0, 1, 0):
        q, k, v = inputs[index]
        want = reference.run(index, q, k, v)
        torch.testing.assert_close(backend.run(index, q, k, v), want, **CLOSE)


def test_plans_are_made_anew_for_each_batch() -> None:
    spec = wide()
    backend: FlashInferAttention | None = None
    cache = KVCache([spec], num_slots=1000, dtype=DTYPE, device=CPU)
    for seed in range(6):
        w = world(spec, random_layout(seed, groups=seed % 2 == 1), dtype=DTYPE)
        for ours, theirs in ((cache.k[0], w.cache.k[0]), (cache.v[0], w.cache.v[0])):
            ours[: len(theirs)] = theirs
        backend = backend or FlashInferAttention(cache, library=model)
        want = w.run(TorchAttention(w.cache))
        torch.testing.assert_close(w.run(backend), want, **CLOSE)


# What a sequence gets must not depend on its neighbours.


def orders(seqs: list[Seq]) -> list[model.Order]:
    """The order of summation each sequence gets in the batch of all of them."""
    layout = build(seqs)
    found: dict[int, model.Order] = {}
    for part in fp.parts(layout, group_size=2, share=True):
        kind = fp.Kind.of(wide())
        if part.route.kernel == "decode":
            wrapper = model.BatchDecodeWithPagedKVCacheWrapper(
                ROOM, use_tensor_cores=True, backend="fa2"
            )
            wrapper.plan(**fp.decode_arguments(part, kind, DTYPE))
        else:
            wrapper = model.BatchPrefillWithPagedKVCacheWrapper(ROOM, backend="fa2")
            wrapper.plan(**fp.prefill_arguments(part, kind, DTYPE))
        rows = np.arange(layout.num_tokens) if part.rows is None else part.rows
        first = rows[part.qo_indptr[:-1]]
        for row, order in zip(first, wrapper.orders, strict=True):
            found[int(np.searchsorted(layout.q_indptr, row, side="right")) - 1] = order
    return [found[b] for b in range(len(seqs))]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.builds(Seq, st.integers(1, 90), st.integers(0, 80)), min_size=1, max_size=12))
def test_the_order_of_summation_is_a_sequence_s_own(seqs: list[Seq]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fp, "LONG", 50)
        assert orders(seqs) == [orders([alone])[0] for alone in seqs]


def test_one_plan_for_all_would_not_keep_that() -> None:
    """The reason for routes: planned as one batch, a prompt's tile shrinks among decodes."""

    def tile(*rows: int) -> int:
        wrapper = model.BatchPrefillWithPagedKVCacheWrapper(ROOM, backend="fa2")
        layout = build([Seq(n, 5) for n in rows])
        part = replace(fp.parts(layout, group_size=2, share=False)[0], rows=None)
        part = replace(part, qo_indptr=layout.q_indptr, kv_indptr=layout.kv_indptr)
        wrapper.plan(**fp.prefill_arguments(part, fp.Kind.of(wide()), DTYPE))
        return wrapper.orders[0].query_tile

    assert tile(50) == 128
    assert tile(50, *[1] * 9) == 16


def test_workspace_grows_with_the_rows_that_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model refuses, as the library does, partial results that do not fit."""
    monkeypatch.setattr(fp, "LONG", 20)
    monkeypatch.setattr(fp, "SPLIT", 8)
    first, second = build([Seq(1, 40)]), build([Seq(1, 40), Seq(1, 300)])
    w = world(wide(), second, dtype=DTYPE)
    backend = FlashInferAttention(w.cache, library=model)
    backend.plan(first)
    torch.testing.assert_close(w.run(backend), w.run(TorchAttention(w.cache)), **CLOSE)


# Steady decoding, padded and at fixed addresses.


def steady(*lengths: int, seed: int = 0) -> Layout:
    return build([Seq(1, length - 1) for length in lengths], seed=seed)


def padded(x: torch.Tensor, size: int) -> torch.Tensor:
    """What a captured forward would hand over: its own numbers in the rows beyond the batch."""
    return torch.cat([x, torch.full((size - len(x), *x.shape[1:]), 7.0, dtype=x.dtype)])


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys())
def test_padded_decode_equals_the_reference(features: dict[str, object]) -> None:
    w = world(wide(**features), steady(5, 40, 1, 17, 33), dtype=DTYPE)
    backend = FlashInferAttention(w.cache, library=model)
    want = w.run(TorchAttention(w.cache))
    size = backend.decode_size(w.layout)
    assert size == 8
    backend.plan_decode(w.layout, size)
    got = backend.run(0, *(padded(x, size) for x in (w.q, w.k, w.v)), w.sinks)
    torch.testing.assert_close(got[:5], want, **CLOSE)


def test_padding_writes_nothing_of_its_own() -> None:
    w = world(wide(), steady(5, 40, 17), dtype=DTYPE)
    backend = FlashInferAttention(w.cache, library=model)
    w.run(backend)
    keys, values = w.cache.k[0].clone(), w.cache.v[0].clone()
    backend.plan_decode(w.layout, 4)
    backend.run(0, *(padded(x, 4) for x in (w.q, w.k, w.v)))
    assert torch.equal(w.cache.k[0], keys)
    assert torch.equal(w.cache.v[0], values)


def test_a_captured_size_is_planned_in_place() -> None:
    w = world(wide(), steady(5, 40, 17), dtype=DTYPE)
    backend = FlashInferAttention(w.cache, library=model)
    backend.plan_decode(w.layout, 4)
    buffers = backend._steady._sizes[4]
    wrapper = next(iter(buffers.wrappers.values()))
    places = [x.data_ptr() for x in (buffers.out_slots, buffers.source_rows, *wrapper.pages)]
    backend.plan_decode(steady(2, 3, seed=1), 2)
    backend.plan_decode(steady(9, 30, 8, 4, seed=2), 4)
    assert backend._steady._sizes[4] is buffers
    assert places == [
        x.data_ptr() for x in (buffers.out_slots, buffers.source_rows, *wrapper.pages)
    ]


@pytest.mark.parametrize(
    ("layout", "size"),
    [
        (steady(3), 1),
        (steady(*[3] * 9), 16),
        (steady(*[2] * 128), 128),
        (steady(*[2] * 129), None),
        (steady(3, fp.LONG), 2),
        (steady(3, fp.LONG + 1), None),
        (build([Seq(1, 4), Seq(2, 4)]), None),
        (build([Seq(1, 4), Seq(1, 4, like=0, shared=4)], groups=[(0, 2, 4)]), None),
    ],
    ids=["one", "padded", "most", "too many", "long", "too long", "mixed", "groups"],
)
def test_decode_size(layout: Layout, size: int | None) -> None:
    assert fp.decode_size(layout) == size


# Refusals.


def test_unsupported_names_what_is_missing() -> None:
    assert FlashInferAttention.unsupported([wide(has_sinks=True, softcap=3.0, window=5)]) == []
    assert FlashInferAttention.unsupported([wide(head_dim=80, v_head_dim=64)] * 2) == [
        "head_dim 80 (it has 64, 128 and 256)",
        "v_head_dim 64 beside head_dim 80",
    ]


def test_refuses_a_cache_of_float32() -> None:
    cache = KVCache([wide()], num_slots=1, dtype=torch.float32, device=CPU)
    with pytest.raises(UnsupportedModel, match=r"K and V of torch\.float32"):
        FlashInferAttention(cache, library=model)


def test_says_how_to_get_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(importlib.import_module("sys").modules, "flashinfer", None)
    cache = KVCache([wide()], num_slots=1, dtype=DTYPE, device=CPU)
    with pytest.raises(InvalidRequest, match=r"install agentrt\[cuda\]"):
        FlashInferAttention(cache)


# The interface itself.


def parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "args", "kwargs"}


@pytest.fixture(scope="module")
def used() -> dict[str, set[str]]:
    """The keywords that reach each function, recorded while every path is taken."""
    seen: dict[str, set[str]] = defaultdict(set)

    def spy(owner: Any, name: str, label: str) -> None:
        function = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(function).bind(*args, **kwargs)
            seen[label] |= set(bound.arguments) - {"self"}
            return function(*args, **kwargs)

        setattr(owner, name, call)

    library = SimpleNamespace(merge_state=model.merge_state)
    spy(library, "merge_state", "merge_state")
    for base in (
        model.BatchDecodeWithPagedKVCacheWrapper,
        model.BatchPrefillWithPagedKVCacheWrapper,
    ):
        copy = type(base.__name__, (base,), dict(vars(base)))
        copy.__init__ = base.__init__
        for name in ("__init__", "plan", "run"):
            spy(copy, name, f"{base.__name__}.{name}")
        setattr(library, base.__name__, copy)

    group = [Seq(1, 30), Seq(1, 30, like=0, shared=28)]
    mixed = build([*group, Seq(9, 4), Seq(2, fp.LONG)], groups=[(0, 2, 28)])
    for layout in (mixed, steady(4, 9)):
        w = world(wide(softcap=2.0), layout, dtype=DTYPE)
        backend = FlashInferAttention(w.cache, library=library)
        w.run(backend)
    backend.plan_decode(layout, 2)
    return seen


def test_every_name_used_is_in_the_published_interface(used: dict[str, set[str]]) -> None:
    plan = "BatchDecodeWithPagedKVCacheWrapper.plan"
    published = {k.replace("_plan_impl", "plan"): set(v) for k, v in api.SIGNATURES.items()}
    assert set(used) == set(published)
    assert {name: names - published[name] for name, names in used.items() if names} == {
        name: set() for name in used
    }
    assert "disable_split_kv" in used[plan]
    assert "fixed_split_size" in used["BatchPrefillWithPagedKVCacheWrapper.plan"]


def test_the_model_takes_no_name_that_is_not_published() -> None:
    for label, names in api.SIGNATURES.items():
        function: Any = model
        for part in label.replace("_plan_impl", "plan").split("."):
            function = getattr(function, part)
        assert parameters(function) <= set(names), label


@pytest.mark.skipif(
    importlib.util.find_spec("flashinfer") is None, reason="flashinfer is not installed"
)
def test_the_installed_flashinfer_has_every_name_used(used: dict[str, set[str]]) -> None:
    library = importlib.import_module("flashinfer")
    for label, names in used.items():
        owner, _, method = label.partition(".")
        function = getattr(library, owner)
        if method:
            implementation = "_plan_impl" if hasattr(function, "_plan_impl") else "plan"
            function = getattr(function, implementation if method == "plan" else method)
        assert names <= parameters(function), label
