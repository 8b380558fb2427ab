"""Linear maps in plain torch, and what a weight matrix offers whatever form it is kept in.

Knows the arithmetic only: which form reads fastest on a device is cpu.py's and gpu.py's.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor
from torch.nn import functional as F


class Matrix(Protocol):
    """A weight matrix W [outputs, inputs], with its bias if it has one, ready to be applied.

    The same number of rows gives the same bits: no choice depends on anything but shapes.
    """

    num_bytes: int

    def __call__(self, inputs: Tensor) -> Tensor:
        """`inputs` [n, inputs] -> x W^T + b [n, outputs], in the type of `inputs`."""
        ...


class PlainMatrix:
    """The weight as published, [outputs, inputs], applied by torch's own choice of kernel."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias
        self.num_bytes = weight.nbytes + (bias.nbytes if bias is not None else 0)

    def __call__(self, inputs: Tensor) -> Tensor:
        """As `Matrix`."""
        return F.linear(inputs, self.weight, self.bias)
