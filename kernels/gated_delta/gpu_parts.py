"""What the kernels of the chunked gated delta rule share: unit rows, and decay within a chunk.

A float32 dot holds whole rows of both factors in registers. Rows of 128 would not fit, so rows of
queries and keys are multiplied by slices, which come from the cache each time.
"""

from __future__ import annotations

import triton
import triton.language as tl

EPSILON = 1e-6  # under the root of a key's squared length, as in `reference`
SLICE = 16  # the fewest numbers that a dot adds up


@triton.jit
def _whole_rows(
    heads: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    stride: int,
    KEY_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Rows [CHUNK, BLOCK] of one head in float32; zeros where not `valid`."""
    column = tl.arange(0, BLOCK)[None, :]
    place = token.to(tl.int64)[:, None] * stride + column
    return tl.load(heads + place, valid[:, None] & (column < KEY_DIM), 0.0).to(tl.float32)


@triton.jit
def unit_rows(
    heads: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    stride: int,
    epsilon: float,
    KEY_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Rows [CHUNK, BLOCK] of one head in float32, each of length 1; zeros where not `valid`."""
    rows = _whole_rows(heads, token, valid, stride, KEY_DIM, BLOCK)
    return rows * tl.rsqrt(tl.sum(rows * rows, 1, keep_dims=True) + epsilon)


@triton.jit
def inverse_lengths(
    heads: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    stride: int,
    epsilon: float,
    KEY_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """What the rows [CHUNK] of one head are multiplied by to become of length 1."""
    rows = _whole_rows(heads, token, valid, stride, KEY_DIM, BLOCK)
    return tl.rsqrt(tl.sum(rows * rows, 1) + epsilon)


@triton.jit
def row_slice(
    heads: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    stride: int,
    at: tl.tensor,
    KEY_DIM: tl.constexpr,
    SLICE: tl.constexpr,
) -> tl.tensor:
    """Numbers at .. at + SLICE of the rows of one head: [CHUNK, SLICE] in float32."""
    column = at + tl.arange(0, SLICE)[None, :]
    return tl.load(
        heads + token.to(tl.int64)[:, None] * stride + column,
        valid[:, None] & (column < KEY_DIM),
        0.0,
    ).to(tl.float32)


@triton.jit
def row_products(
    left: tl.tensor,
    right: tl.tensor,
    token: tl.tensor,
    valid: tl.tensor,
    left_stride: int,
    right_stride: int,
    KEY_DIM: tl.constexpr,
    CHUNK: tl.constexpr,
    SLICE: tl.constexpr,
) -> tl.tensor:
    """Each row of `left` times each row of `right`, as they are: [CHUNK, CHUNK]."""
    products = tl.zeros([CHUNK, CHUNK], tl.float32)
    for at in range(0, KEY_DIM, SLICE):
        first = row_slice(left, token, valid, left_stride, at, KEY_DIM, SLICE)
        second = row_slice(right, token, valid, right_stride, at, KEY_DIM, SLICE)
        products = tl.dot(first, tl.trans(second), products, input_precision="ieee")
    return products


@triton.jit
def decay_sums(
    decay: tl.tensor, token: tl.tensor, valid: tl.tensor, stride: int
) -> tuple[tl.tensor, tl.tensor]:
    """G_i = g_1 + .. + g_i [CHUNK] of one head, and the sum over the chunk."""
    steps = tl.load(decay + token.to(tl.int64) * stride, valid, 0.0).to(tl.float32)
    return tl.cumsum(steps, 0), tl.sum(steps, 0)


@triton.jit
def pairwise_decay(sums: tl.tensor, kept: tl.tensor) -> tl.tensor:
    """e^(G_i - G_j) where `kept`, else zero; masked first, for above the diagonal it overflows."""
    difference = sums[:, None] - sums[None, :]
    return tl.exp(tl.where(kept, difference, float("-inf")))
