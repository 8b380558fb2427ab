"""Linear maps y = x W^T (+ b) and table look-ups, with W stored [out, in] as published."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from core.weights.plan import Weights


class Linear:
    """y = x W^T + b in the model's type."""

    def __init__(
        self, weights: Weights, num_inputs: int, num_outputs: int, *, bias: bool = False
    ) -> None:
        self.weight = weights.tensor("weight", (num_outputs, num_inputs))
        self.bias = weights.tensor("bias", (num_outputs,)) if bias else None

    def __call__(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self.weight, self.bias)
