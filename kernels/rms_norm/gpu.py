"""RMS norm in Triton, a few whole rows a program: plain, after a residual addition, or gated."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def rms_norm(inputs: Tensor, scale: Tensor, epsilon: float) -> Tensor:
    """Like `reference.rms_norm`; only the last axis has to be contiguous."""
    if inputs.shape[-1] > (width := scale.shape[0]):
        normed = rms_norm(inputs[..., :width], scale, epsilon)
        return torch.cat((normed, inputs[..., width:]), dim=-1)
    outputs = torch.empty(inputs.shape, dtype=inputs.dtype, device=inputs.device)
    _launch(inputs, scale, epsilon, outputs)
    return outputs


def add_rms_norm(
    inputs: Tensor, residual: Tensor, scale: Tensor, epsilon: float, multiplier: float = 1.0
) -> tuple[Tensor, Tensor]:
    outputs, total = (
        torch.empty(inputs.shape, dtype=inputs.dtype, device=inputs.device) for _ in range(2)
    )
    _launch(inputs, scale, epsilon, outputs, residual=residual, total=total, multiplier=multiplier)
    return outputs, total


def gated_rms_norm(
    inputs: Tensor,
    scale: Tensor,
    gate: Tensor,
    epsilon: float,
    dtype: torch.dtype,
    sigmoid: bool = False,
) -> Tensor:
    outputs = torch.empty(inputs.shape, dtype=dtype, device=inputs.device)
    _launch(inputs, scale, epsilon, outputs, gate=gate, sigmoid=sigmoid)
    return outputs


def _launch(
    inputs: Tensor,
    scale: Tensor,
    epsilon: float,
    outputs: Tensor,
    *,
    residual: Tensor | None = None,
    total: Tensor | None = None,
    gate: Tensor | None = None,
    sigmoid: bool = False,
    multiplier: float = 1.0,
) -> None:
    if inputs.numel() == 0:
        return
    width = inputs.shape[-1]
    block = triton.next_power_of_2(width)
    rows = max(1, 1024 // block)
    inputs = _in_heads(inputs)
    beside = _in_heads(residual if residual is not None else gate if gate is not None else inputs)
    num_rows = inputs.shape[0] * inputs.shape[1]
    _rms_norm_rows[(triton.cdiv(num_rows, rows),)](
        inputs, beside, scale, outputs, outputs if total is None else total, num_rows,
        inputs.shape[1], *inputs.stride()[:2], *beside.stride()[:2], epsilon, float(multiplier),
        WIDTH=width, BLOCK=block, ROWS=rows, ADD=residual is not None, GATE=gate is not None,
        SIGMOID=sigmoid,
        num_warps=4 if block <= 2048 else 8 if block <= 8192 else 16,
    )  # fmt: skip


def _in_heads(rows: Tensor) -> Tensor:
    """[tokens, heads, width] with a contiguous last axis, as a view if possible."""
    if rows.shape[-1] > 1 and rows.stride(-1) != 1:
        rows = rows.contiguous()
    return (
        rows.reshape(-1, *rows.shape[-2:]) if rows.dim() > 2 else rows.view(-1, 1, rows.shape[-1])
    )


@triton.jit(do_not_specialize=["num_rows"])
def _rms_norm_rows(
    inputs: tl.tensor,
    beside: tl.tensor,
    scale: tl.tensor,
    outputs: tl.tensor,
    total: tl.tensor,
    num_rows: int,
    num_heads: int,
    token_stride: int,
    head_stride: int,
    beside_token_stride: int,
    beside_head_stride: int,
    epsilon: float,
    multiplier: float,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    ADD: tl.constexpr,
    GATE: tl.constexpr,
    SIGMOID: tl.constexpr,
) -> None:
    """Rows are [tokens, heads]; `beside` is the residual or the gate."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    valid = (row < num_rows) & (column < WIDTH)
    token, head = row // num_heads, row % num_heads
    here = row * WIDTH + column
    values = tl.load(inputs + token * token_stride + head * head_stride + column, valid, 0.0)
    values = values.to(tl.float32)
    other = token * beside_token_stride + head * beside_head_stride + column
    if ADD:
        # Rounded here as the unfused addition rounds, for it is what later layers add to.
        added = values * multiplier + tl.load(beside + other, valid, 0.0).to(tl.float32)
        rounded = added.to(total.dtype.element_ty)
        tl.store(total + here, rounded, valid)
        values = rounded.to(tl.float32)
    mean_square = tl.sum(values * values, 1, keep_dims=True) / WIDTH
    result = values * tl.rsqrt(mean_square + epsilon)
    result *= tl.load(scale + column, column < WIDTH, 0.0)
    if GATE:
        gate = tl.load(beside + other, valid, 0.0).to(tl.float32)
        result *= tl.sigmoid(gate) if SIGMOID else gate * tl.sigmoid(gate)
    tl.store(outputs + here, result.to(outputs.dtype.element_ty), valid)
