"""RMS norm in plain torch (Zhang and Sennrich 2019, arXiv:1910.07467).

`scale` is the factor: a family that stores w around zero passes 1 + w.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F


def rms_norm(inputs: Tensor, scale: Tensor, epsilon: float) -> Tensor:
    """`inputs` [..., width] over their root mean square, times `scale` [width], in float32 until
    the result is cast back. Numbers after the first `width` stay as they are."""
    if inputs.shape[-1] > (width := scale.shape[0]):
        normed = rms_norm(inputs[..., :width], scale, epsilon)
        return torch.cat((normed, inputs[..., width:]), dim=-1)
    # The one copy that is made of the rows is changed in place: a long run's rows leave the cache.
    wide = inputs.to(torch.float32, copy=True)
    return wide.div_(_lengths(wide, epsilon)).mul_(scale).to(inputs.dtype)


def add_rms_norm(
    inputs: Tensor, residual: Tensor, scale: Tensor, epsilon: float, multiplier: float = 1.0
) -> tuple[Tensor, Tensor]:
    """RMS norm of the sum `residual` + multiplier * `inputs`, [..., width], and the sum, rounded
    first."""
    total = torch.add(residual, inputs, alpha=multiplier)
    return rms_norm(total, scale, epsilon), total


def gated_rms_norm(
    inputs: Tensor,
    scale: Tensor,
    gate: Tensor,
    epsilon: float,
    dtype: torch.dtype,
    sigmoid: bool = False,
) -> Tensor:
    """RMS norm of `inputs` [..., width], times silu(gate) or sigmoid(gate), in float32, as
    `dtype`."""
    gated = torch.sigmoid(gate.float()) if sigmoid else F.silu(gate.float())
    return gated.mul_(inputs).div_(_lengths(inputs, epsilon)).mul_(scale).to(dtype)


def gated_group_norm(
    inputs: Tensor,
    scale: Tensor | None,
    gate: Tensor,
    epsilon: float,
    multiplier: float,
    gate_first: bool,
) -> Tensor:
    """RMS norm of each group of `inputs` [n, groups, width], times `scale` [groups * width] and
    silu(multiplier * gate).

    `gate_first`: the gate comes before the norm; without a `scale` there is no norm. In float32;
    the result [n, groups * width] has the type of `gate`.
    """
    opened = F.silu(gate.float().mul(multiplier)).view(inputs.shape)
    if scale is None:
        return opened.mul_(inputs).flatten(1).to(gate.dtype)
    rows = opened * inputs if gate_first else inputs
    normed = rows / _lengths(rows, epsilon) * scale.view(inputs.shape[1:])
    return (normed if gate_first else normed.mul_(opened)).flatten(1).to(gate.dtype)


def _lengths(rows: Tensor, epsilon: float) -> Tensor:
    """The root mean square of each row [.., width], epsilon included: [.., 1] float32.

    Two calls, because a generated token waits for them: a norm, and the root of two squares, the
    second width * epsilon.
    """
    width = rows.shape[-1]
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True, dtype=torch.float32)
    return torch.hypot(length, _root(width * epsilon, rows.device)).mul_(width**-0.5)


@cache
def _root(value: float, device: torch.device) -> Tensor:
    return torch.tensor(value**0.5, device=device)
