"""What the kernels of the chunked gated delta rule share: unit rows, and decay within a chunk."""

from __future__ import annotations

import triton
import triton.language as tl

EPSILON = 1e-6  # under the root of a key's squared length, as in `reference`


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
    column = tl.arange(0, BLOCK)[None, :]
    rows = tl.load(
        heads + token.to(tl.int64)[:, None] * stride + column,
        valid[:, None] & (column < KEY_DIM),
        0.0,
    ).to(tl.float32)
    return rows * tl.rsqrt(tl.sum(rows * rows, 1, keep_dims=True) + epsilon)


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
