"""Rotary position embedding in Triton, alone or after the norm of each head."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.common.memory import dense_rows

_TOKENS = 8  # of one head in one program


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Like `reference.rotate`, but rounded once."""
    outputs = torch.empty(heads.shape, dtype=heads.dtype, device=heads.device)
    _launch(heads, *_dense(cosine, sine), outputs)
    return outputs


def norm_rotate(
    heads: Tensor, scale: Tensor, epsilon: float, cosine: Tensor, sine: Tensor
) -> Tensor:
    outputs = torch.empty(heads.shape, dtype=heads.dtype, device=heads.device)
    _launch(heads, *_dense(cosine, sine), outputs, scale=scale, epsilon=epsilon)
    return outputs


def _dense(cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
    """Interleaved angles come transposed."""
    if dense_rows(cosine, sine):
        return cosine, sine
    return cosine.contiguous(), sine.contiguous()


def _launch(
    heads: Tensor,
    cosine: Tensor,
    sine: Tensor,
    outputs: Tensor,
    *,
    scale: Tensor | None = None,
    epsilon: float = 0.0,
) -> None:
    num_tokens, num_heads, head_dim = heads.shape
    assert dense_rows(heads, cosine, sine, outputs)
    assert cosine.stride() == sine.stride()
    _rotate[(triton.cdiv(num_tokens, _TOKENS), num_heads)](
        heads, cosine, sine, outputs, cosine if scale is None else scale, num_tokens, epsilon,
        *heads.stride()[:2], *outputs.stride()[:2], cosine.stride(0),
        HALF=cosine.shape[1], WIDTH=head_dim, BLOCK=triton.next_power_of_2(head_dim),
        TOKENS=_TOKENS, NORMALISED=scale is not None,
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_tokens"])
def _rotate(
    heads: tl.tensor,
    cosine: tl.tensor,
    sine: tl.tensor,
    outputs: tl.tensor,
    scale: tl.tensor,
    num_tokens: int,
    epsilon: float,
    stride: int,
    head_stride: int,
    output_stride: int,
    output_head_stride: int,
    angle_stride: int,
    HALF: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    TOKENS: tl.constexpr,
    NORMALISED: tl.constexpr,
) -> None:
    """Programs (tokens, head). Number i < HALF rotates with number i + HALF."""
    token = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)[:, None]).to(tl.int64)
    column = tl.arange(0, BLOCK)[None, :]
    valid = (token < num_tokens) & (column < WIDTH)
    head = tl.program_id(1)
    rotated = column < 2 * HALF
    other = tl.where(column < HALF, column + HALF, column - HALF)
    here = heads + token * stride + head * head_stride
    value = tl.load(here + column, valid, 0.0).to(tl.float32)
    partner = tl.load(here + other, valid & rotated, 0.0).to(tl.float32)
    if NORMALISED:
        mean_square = tl.sum(value * value, 1, keep_dims=True) / WIDTH
        inverse = tl.rsqrt(mean_square + epsilon)
        value *= inverse * tl.load(scale + column, column < WIDTH, 0.0)
        partner *= inverse * tl.load(scale + other, rotated, 0.0)
    angle = token * angle_stride + tl.where(column < HALF, column, column - HALF)
    cos = tl.load(cosine + angle, valid & rotated, 1.0).to(tl.float32)
    sin = tl.load(sine + angle, valid & rotated, 0.0).to(tl.float32)
    result = value * cos + tl.where(column < HALF, -partner, partner) * sin
    there = outputs + token * output_stride + head * output_head_stride + column
    tl.store(there, result.to(outputs.dtype.element_ty), valid)
