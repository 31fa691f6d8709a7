"""What FlashInfer's documentation says its wrappers do, in torch, to stand in for the module.

It takes the same arrays by the same names and is as strict as the real thing where a mistake would
only show on a GPU: dtypes, shapes, fixed batch sizes, buffers of a fixed place. In CUDA-graph mode
`run` reads those buffers and not what `plan` was given, as a replayed graph would.

Sources, flashinfer-python 0.7.4: the docstrings of the wrappers; variants.cuh for the masks;
cascade.cuh for merge_state and the base of the log-sum-exp, which is 2; scheduler.cuh and utils.cuh
for the query tile and the KV split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

State = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Order:
    """What the order of summation of one sequence hangs on."""

    query_tile: int
    kv_split: int | None


class _Wrapper:
    def __init__(self, workspace: torch.Tensor, kv_layout: str, *, graph: bool) -> None:
        assert workspace.dtype == torch.uint8
        assert kv_layout == "NHD"
        self.workspace = workspace
        self.graph = graph
        self.orders: list[Order] = []

    def _check(self, dtype: torch.dtype, page_size: int, *index_arrays: torch.Tensor) -> None:
        self.page_size = page_size
        assert dtype in (torch.float16, torch.bfloat16)
        for array in index_arrays:
            assert array.dtype == torch.int32
            assert array.is_contiguous()

    def _plan_orders(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        heads: tuple[int, int],
        head_dim: int,
        split: int | None,
        disable_split: bool,
    ) -> None:
        group = heads[0] // heads[1]
        mean = int(qo_indptr[-1]) * group // (len(qo_indptr) - 1)
        tile = 128 if mean > 64 and head_dim < 256 else 64 if mean > 16 else 16
        if not disable_split and split is None:
            split = -1  # from the whole batch and the device
        order = Order(tile, None if disable_split else split)
        self.orders = [order] * (len(qo_indptr) - 1)
        if order.kv_split is not None and order.kv_split > 0:
            tiles = -(-qo_indptr.diff() * group // tile)
            blocks = int((tiles * -(-kv_indptr.diff() // order.kv_split)).sum())
            partial = blocks * tile * heads[0] * (head_dim + 1) * 4
            assert partial <= self.workspace.numel(), "failed to allocate in the workspace"


class BatchPrefillWithPagedKVCacheWrapper(_Wrapper):
    def __init__(
        self,
        float_workspace_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        *,
        backend: str = "auto",
    ) -> None:
        super().__init__(float_workspace_buffer, kv_layout, graph=False)
        assert backend == "fa2", "the others ignore the KV split"

    def plan(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        *,
        causal: bool = False,
        sm_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
    ) -> None:
        self._check(
            q_data_type,
            page_size,
            qo_indptr,
            paged_kv_indptr,
            paged_kv_indices,
            paged_kv_last_page_len,
        )
        self.q_data_type = q_data_type
        self.kv_data_type = kv_data_type or q_data_type
        self.heads = (num_qo_heads, num_kv_heads)
        self.head_dim = head_dim_qk
        self.qo_indptr = qo_indptr
        self.pages = (paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len)
        self.options: dict[str, Any] = {
            "causal": causal,
            "sm_scale": sm_scale,
            "window_left": window_left,
            "logits_soft_cap": logits_soft_cap or 0.0,
        }
        self._plan_orders(
            qo_indptr, paged_kv_indptr, self.heads, head_dim_qk, fixed_split_size, disable_split_kv
        )

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: tuple[torch.Tensor, torch.Tensor],
        *,
        return_lse: bool = False,
    ) -> State | torch.Tensor:
        assert q.is_contiguous()
        assert q.dtype == self.q_data_type
        assert paged_kv_cache[0].dtype == self.kv_data_type
        assert paged_kv_cache[0].shape[1] == self.page_size
        assert q.shape == (int(self.qo_indptr[-1]), self.heads[0], self.head_dim)
        state = _attend(q, paged_kv_cache, self.qo_indptr, self.pages, **self.options)
        return state if return_lse else state[0]


class BatchDecodeWithPagedKVCacheWrapper(_Wrapper):
    def __init__(
        self,
        float_workspace_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: torch.Tensor | None = None,
        paged_kv_indices_buffer: torch.Tensor | None = None,
        paged_kv_last_page_len_buffer: torch.Tensor | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__(float_workspace_buffer, kv_layout, graph=use_cuda_graph)
        assert backend == "fa2"
        assert use_tensor_cores, "without them the decode kernel ignores the KV split"
        self.pages: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
        if use_cuda_graph:
            assert paged_kv_indptr_buffer is not None
            assert paged_kv_indices_buffer is not None
            assert paged_kv_last_page_len_buffer is not None
            assert len(paged_kv_indptr_buffer) == len(paged_kv_last_page_len_buffer) + 1
            self.pages = (
                paged_kv_indptr_buffer,
                paged_kv_indices_buffer,
                paged_kv_last_page_len_buffer,
            )

    def plan(
        self,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        *,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype | None = None,
        sm_scale: float | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
    ) -> None:
        self._check(q_data_type, page_size, indptr, indices, last_page_len)
        assert len(indptr) == len(last_page_len) + 1
        if not self.graph:
            self.pages = (indptr, indices, last_page_len)
        else:
            assert disable_split_kv, "a split changes how many blocks a captured launch needs"
            assert self.pages is not None
            assert len(last_page_len) == len(self.pages[2]), "the captured batch size is fixed"
            assert len(indices) <= len(self.pages[1])
            self.pages[0].copy_(indptr)
            self.pages[1][: len(indices)] = indices
            self.pages[2].copy_(last_page_len)
        self.q_data_type = q_data_type
        self.kv_data_type = kv_data_type or q_data_type
        self.heads = (num_qo_heads, num_kv_heads)
        self.head_dim = head_dim
        self.options: dict[str, Any] = {
            "causal": False,
            "sm_scale": sm_scale,
            "window_left": window_left,
            "logits_soft_cap": logits_soft_cap or 0.0,
        }
        rows = torch.arange(len(indptr))
        self._plan_orders(rows, indptr, self.heads, head_dim, fixed_split_size, disable_split_kv)

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: tuple[torch.Tensor, torch.Tensor],
        *,
        return_lse: bool = False,
    ) -> State | torch.Tensor:
        assert self.pages is not None
        assert q.is_contiguous()
        assert q.dtype == self.q_data_type
        assert paged_kv_cache[0].dtype == self.kv_data_type
        assert paged_kv_cache[0].shape[1] == self.page_size
        assert q.shape == (len(self.pages[2]), self.heads[0], self.head_dim)
        rows = torch.arange(len(self.pages[0]))
        state = _attend(q, paged_kv_cache, rows, self.pages, **self.options)
        return state if return_lse else state[0]


def merge_state(
    v_a: torch.Tensor, s_a: torch.Tensor, v_b: torch.Tensor, s_b: torch.Tensor
) -> State:
    assert s_a.dtype == s_b.dtype == torch.float32
    assert v_a.shape[1] * v_a.shape[2] <= 8192, "more threads than a block has"
    top = torch.maximum(s_a, s_b)
    a, b = torch.exp2(s_a - top), torch.exp2(s_b - top)
    merged = (v_a * a[..., None] + v_b * b[..., None]) / (a + b)[..., None]
    return merged.to(v_a.dtype), torch.log2(a + b) + top


def _attend(
    q: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    qo_indptr: torch.Tensor,
    pages: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    **options: Any,
) -> State:
    indptr, indices, last_page_len = pages
    page_size = cache[0].shape[1]
    outs, sums = [], []
    for b in range(len(qo_indptr) - 1):
        assert 1 <= int(last_page_len[b]) <= page_size
        at = indices[int(indptr[b]) : int(indptr[b + 1])].long()
        length = (len(at) - 1) * page_size + int(last_page_len[b])
        k, v = (x[at].flatten(0, 1)[:length].double() for x in cache)
        rows = q[int(qo_indptr[b]) : int(qo_indptr[b + 1])].double()
        out, lse = _attend_one(rows, k, v, **options)
        outs.append(out)
        sums.append(lse)
    return torch.cat(outs).to(q.dtype), torch.cat(sums).float()


def _attend_one(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    sm_scale: float | None,
    window_left: int,
    logits_soft_cap: float,
) -> State:
    qo_len, kv_len, group = len(q), len(k), q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[-1]) if sm_scale is None else sm_scale
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = torch.einsum("qhd,khd->qhk", q, k) * scale
    if logits_soft_cap > 0:
        scores = logits_soft_cap * torch.tanh(scores / logits_soft_cap)
    qo, kv = torch.arange(qo_len)[:, None], torch.arange(kv_len)[None]
    seen = torch.ones(qo_len, kv_len, dtype=torch.bool)
    if causal:
        seen &= kv <= kv_len - qo_len + qo
    if window_left >= 0:
        seen &= kv + qo_len + window_left >= kv_len + qo
    scores = scores.masked_fill(~seen[:, None], -torch.inf)
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - lse[..., None]).nan_to_num(0.0)
    return torch.einsum("qhk,khd->qhd", weights, v), lse / math.log(2.0)
