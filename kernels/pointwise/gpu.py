"""Gated units in Triton, in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.common.memory import dense_rows

_BLOCK = 1024  # numbers of a program


def swiglu(gate: Tensor, up: Tensor, multiplier: float = 1.0) -> Tensor:
    """Only the last axis has to be contiguous."""
    return _gated(gate, up, multiplier)


def geglu(gate: Tensor, up: Tensor) -> Tensor:
    return _gated(gate, up, 1.0, tanh=True)


def clamped_swiglu(gate: Tensor, up: Tensor, slope: float, limit: float) -> Tensor:
    return _gated(gate, up, slope, limit)


def _gated(
    gate: Tensor, up: Tensor, multiplier: float, limit: float | None = None, *, tanh: bool = False
) -> Tensor:
    assert gate.shape == up.shape and dense_rows(gate, up)
    outputs = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    if outputs.numel() == 0:
        return outputs
    rows, width = gate.shape
    _gated_rows[(rows, triton.cdiv(width, _BLOCK))](
        gate, up, outputs, width, gate.stride(0), up.stride(0), float(multiplier),
        float(limit or 0), TANH=tanh, CLAMPED=limit is not None, BLOCK=_BLOCK,
    )  # fmt: skip
    return outputs


@triton.jit
def _gated_rows(
    gate: tl.tensor,
    up: tl.tensor,
    outputs: tl.tensor,
    width: int,
    gate_stride: int,
    up_stride: int,
    multiplier: float,
    limit: float,
    TANH: tl.constexpr,
    CLAMPED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Programs (row, columns). gelu(x) = x * sigmoid(2u), because 1 + tanh(u) = 2 sigmoid(2u)."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    number = tl.load(gate + row * gate_stride + column, inside, 0.0).to(tl.float32)
    factor = tl.load(up + row * up_stride + column, inside, 0.0).to(tl.float32)
    if CLAMPED:
        number = tl.where(number > limit, limit, number)
        factor = tl.where(factor > limit, limit, tl.where(factor < -limit, -limit, factor)) + 1.0
    else:
        number *= multiplier
    if CLAMPED:
        opened = tl.sigmoid(number * multiplier)
    elif TANH:
        opened = tl.sigmoid(1.5957691216057308 * (number + 0.044715 * number * number * number))
    else:
        opened = tl.sigmoid(number)
    result = number * opened * factor
    tl.store(outputs + row * width + column, result.to(outputs.dtype.element_ty), inside)
