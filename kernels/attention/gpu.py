"""Attention of one generated token in Triton, split over the context.

A second kernel adds up SPLITS equal parts of the keys in order, so a long context keeps the whole
GPU busy. The number of keys is read from the device, so a captured graph stays valid as the context
grows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.common.memory import dense_rows

SPLITS = 64  # times 2 to 8 key heads: a program or more for each of an H200's 132 multiprocessors
_KEYS = 32  # of one step; 16 KiB in bfloat16 for the widest heads
_COLUMNS = 64  # of the result, in one program of the second kernel


def decode_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    length: Tensor,
    scale: float,
    window: int | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """One token attends to itself and everything before it: [1, num_heads, head_dim].

    The first `length` rows of `keys` and `values` [capacity, num_kv_heads, head_dim] count;
    `length` >= 1 is one integer on the device. Computed in float32 and rounded once.
    """
    assert dense_rows(queries, keys, values)
    _, num_heads, head_dim = queries.shape
    kv_heads = keys.shape[1]
    partial = torch.empty(num_heads, SPLITS, head_dim, dtype=torch.float32, device=queries.device)
    weights = torch.empty(2, num_heads, SPLITS, dtype=torch.float32, device=queries.device)
    outputs = torch.empty(1, num_heads, head_dim, dtype=queries.dtype, device=queries.device)
    shape = {
        "GROUP": num_heads // kv_heads,
        "WINDOW": 0 if window is None else window,
        "DIM": head_dim,
        "SPLITS": SPLITS,
        "KEYS": _KEYS,
    }
    _attend_to_split[(kv_heads, SPLITS)](
        queries,
        keys,
        values,
        length,
        partial,
        weights,
        scale,
        queries.stride(1),
        *keys.stride()[:2],
        *values.stride()[:2],
        **shape,
        # The tensor cores take 16 rows at least; a group has fewer, and the rest is zeros.
        ROWS=max(16, triton.next_power_of_2(num_heads // kv_heads)),
        BLOCK=max(16, triton.next_power_of_2(head_dim)),
        WIDE=keys.dtype == torch.float32,
        # Keys loaded ahead take shared memory, of which a small GPU has 99 KiB.
        num_stages=1 if keys.dtype == torch.float32 else 2,
    )
    _add_splits[(num_heads, triton.cdiv(head_dim, _COLUMNS))](
        partial,
        weights,
        length,
        weights if sinks is None else sinks,
        outputs,
        **shape,
        COLUMNS=_COLUMNS,
        SINKS=sinks is not None,
    )
    return outputs


@triton.jit
def _split(
    length: tl.tensor, WINDOW: tl.constexpr, SPLITS: tl.constexpr, KEYS: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """First visible key, end of the keys, and keys of a split, in whole steps."""
    end = tl.load(length).to(tl.int32)
    first = end * 0
    if WINDOW > 0:
        first = tl.maximum(end - WINDOW, 0)
    return first, end, tl.cdiv(tl.cdiv(end - first, SPLITS), KEYS) * KEYS


# Longer than other functions: one loop over keys, whose sums lie in registers from start to end.
@triton.jit
def _attend_to_split(
    queries: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    length: tl.tensor,
    partial: tl.tensor,
    weights: tl.tensor,
    scale: float,
    query_stride: int,
    key_stride: int,
    key_head_stride: int,
    value_stride: int,
    value_head_stride: int,
    GROUP: tl.constexpr,
    WINDOW: tl.constexpr,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    KEYS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDE: tl.constexpr,
) -> None:
    """One split: its sum of values, not yet divided, its maximum and its sum."""
    kv_head, split = tl.program_id(0), tl.program_id(1)
    first, end, size = _split(length, WINDOW, SPLITS, KEYS)
    start = first + split * size
    stop = tl.minimum(start + size, end)
    if start >= stop:
        return  # a short context; the second kernel knows
    row, column = tl.arange(0, ROWS), tl.arange(0, BLOCK)
    head = kv_head * GROUP + row
    mine = row[:, None] < GROUP
    query = tl.load(
        queries + head[:, None] * query_stride + column[None, :],
        mine & (column[None, :] < DIM),
        0.0,
    )
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    added = tl.zeros([ROWS, BLOCK], tl.float32)
    for at in range(start, stop, KEYS):
        token = at + tl.arange(0, KEYS).to(tl.int64)
        seen = (token < stop)[:, None] & (column[None, :] < DIM)
        key = tl.load(
            keys + token[:, None] * key_stride + kv_head * key_head_stride + column[None, :],
            seen,
            0.0,
        )
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        scores = tl.where((token < stop)[None, :], scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        before = tl.exp(highest - higher)
        likely = tl.exp(scores - higher[:, None])
        total = total * before + tl.sum(likely, 1)
        value = tl.load(
            values + token[:, None] * value_stride + kv_head * value_head_stride + column[None, :],
            seen,
            0.0,
        )
        added *= before[:, None]
        if WIDE:
            added += tl.dot(likely, value, input_precision="ieee")
        else:
            # Two bfloat16 hold 16 bits of a probability, so that the result is rounded only once.
            rough = likely.to(tl.bfloat16)
            rest = (likely - rough.to(tl.float32)).to(tl.bfloat16)
            added += tl.dot(rough, value)
            added += tl.dot(rest, value)
        highest = higher
    place = head * SPLITS + split
    there = partial + place[:, None] * DIM + column[None, :]
    tl.store(there, added, mine & (column[None, :] < DIM))
    tl.store(weights + place, highest, row < GROUP)
    num_heads = tl.num_programs(0) * GROUP
    tl.store(weights + num_heads * SPLITS + place, total, row < GROUP)


@triton.jit
def _add_splits(
    partial: tl.tensor,
    weights: tl.tensor,
    length: tl.tensor,
    sinks: tl.tensor,
    outputs: tl.tensor,
    GROUP: tl.constexpr,
    WINDOW: tl.constexpr,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    KEYS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SINKS: tl.constexpr,
) -> None:
    """Some columns of one head: splits weighted by their shares of the softmax."""
    head = tl.program_id(0)
    first, end, size = _split(length, WINDOW, SPLITS, KEYS)
    split = tl.arange(0, SPLITS)
    used = first + split * size < end
    place = head * SPLITS + split
    highest = tl.load(weights + place, used, float("-inf"))
    most = tl.max(highest, 0)
    if SINKS:
        most = tl.maximum(most, tl.load(sinks + head))
    share = tl.exp(highest - most)
    total = tl.sum(tl.load(weights + tl.num_programs(0) * SPLITS + place, used, 0.0) * share, 0)
    if SINKS:
        total += tl.exp(tl.load(sinks + head) - most)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    added = tl.load(
        partial + place[:, None] * DIM + column[None, :],
        used[:, None] & (column[None, :] < DIM),
        0.0,
    )
    result = tl.sum(added * share[:, None], 0) / total
    tl.store(outputs + head * DIM + column, result.to(outputs.dtype.element_ty), column < DIM)
