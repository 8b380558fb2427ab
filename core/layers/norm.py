"""Normalisation layers. RMS norms have float32 weights, whatever the model's type."""

from __future__ import annotations

from copy import copy
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from core.weights.plan import Weights
from kernels.common.shapes import NormShape


class RMSNorm:
    """Multiplies by w. `as_input` names the norm to the matrices that read its result
    (core.weights.smoothing)."""

    _offset = 0.0

    def __init__(self, weights: Weights, width: int, epsilon: float) -> None:
        self.scale, self.as_input = weights.scale("weight", width, self._offset)
        self.epsilon = epsilon
        self._ops = weights.ops(NormShape(width))

    def __call__(self, inputs: Tensor) -> Tensor:
        return self._ops.rms_norm(inputs, self.scale, self.epsilon)

    def of_sum(self, inputs: Tensor, residual: Tensor, multiplier: float) -> tuple[Tensor, Tensor]:
        """The norm of `residual` + multiplier * `inputs`, and the sum."""
        return self._ops.add_rms_norm(inputs, residual, self.scale, self.epsilon, multiplier)

    def times(self, multiplier: float) -> Self:
        other = copy(self)
        other.scale = self.scale * multiplier
        return other


class ZeroCentredRMSNorm(RMSNorm):
    """Multiplies by 1 + w."""

    _offset = 1.0


class GatedRMSNorm:
    """Multiplies by w, then by silu(gate) or, with `sigmoid`, sigmoid(gate); returns the model's
    type."""

    def __init__(
        self, weights: Weights, width: int, epsilon: float, *, sigmoid: bool = False
    ) -> None:
        self.scale = weights.tensor("weight", (width,), torch.float32)
        self.epsilon, self.sigmoid = epsilon, sigmoid
        self.dtype = weights.dtype
        shape = NormShape(width, gated=True, sigmoid=sigmoid)
        self._gated_rms_norm = weights.ops(shape).gated_rms_norm

    def __call__(self, inputs: Tensor, gate: Tensor) -> Tensor:
        return self._gated_rms_norm(
            inputs, self.scale, gate, self.epsilon, self.dtype, self.sigmoid
        )


class LayerNorm:
    def __init__(self, weights: Weights, width: int, epsilon: float) -> None:
        self.weight = weights.tensor("weight", (width,))
        self.bias = weights.tensor("bias", (width,))
        self.epsilon = epsilon

    def __call__(self, inputs: Tensor) -> Tensor:
        return F.layer_norm(inputs, self.weight.shape, self.weight, self.bias, self.epsilon)
