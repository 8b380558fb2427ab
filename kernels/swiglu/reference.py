"""silu(gate) * up in plain torch (Shazeer 2020, arXiv:2002.05202)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """`gate` and `up` [n, width] of one type -> [n, width] of that type."""
    return F.silu(gate).mul_(up)
