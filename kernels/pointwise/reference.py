from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def swiglu(gate: Tensor, up: Tensor, multiplier: float = 1.0) -> Tensor:
    """silu(multiplier * gate) * up (Shazeer 2020, arXiv:2002.05202), [n, width]."""
    return F.silu(gate if multiplier == 1 else gate * multiplier).mul_(up)


def geglu(gate: Tensor, up: Tensor) -> Tensor:
    """gelu(gate) * up with the tanh approximation (Shazeer 2020)."""
    return F.gelu(gate, approximate="tanh").mul_(up)


def clamped_swiglu(gate: Tensor, up: Tensor, slope: float, limit: float) -> Tensor:
    """gate * sigmoid(slope * gate) * (up + 1), gates at most `limit` and `up` within it
    (arXiv:2508.10925), [n, width]."""
    opened, factor = gate.float().clamp(max=limit), up.float().clamp(-limit, limit) + 1
    return (opened * torch.sigmoid(opened * slope)).mul_(factor).to(gate.dtype)


def squared_relu(inputs: Tensor) -> Tensor:
    """relu(inputs)^2 (So et al. 2021, arXiv:2109.08668), [n, width]."""
    return F.relu(inputs).square_()


def gelu(inputs: Tensor) -> Tensor:
    return F.gelu(inputs, approximate="tanh")


def open_gate(attended: Tensor, gate: Tensor) -> Tensor:
    """`attended` [n, num_heads, head_dim] times the sigmoid of a gate for each number, or of one
    for each head, [n, num_heads, 1]."""
    return attended * torch.sigmoid(gate)


def add(first: Tensor, second: Tensor, multiplier: float = 1.0, scale: float = 1.0) -> Tensor:
    """(first + multiplier * second) * scale."""
    total = torch.add(first, second, alpha=multiplier)
    return total if scale == 1 else total.mul_(scale)
