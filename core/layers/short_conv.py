"""The gated short convolution of LFM2: out_proj(C * conv(B * x)). B, C and x are one projection of
the input; the convolution is causal and depthwise. State: the last rows of B * x."""

from __future__ import annotations

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import Forward, LayerState, RecurrentSpec, StateTensor
from core.layers.runs import Runs, convolution_taps, in_runs
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ShortConvShape


class ShortConv:
    """`bias` is that of both projections and of the convolution."""

    def __init__(
        self,
        weights: Weights,
        shape: ShortConvShape,
        *,
        bias: bool,
        input_norm: InputNorm | None = None,
    ) -> None:
        width = shape.channels
        self.specs = (RecurrentSpec((StateTensor((shape.taps - 1, width), weights.dtype),)),)
        self._ops = weights.ops(shape)
        parts = [("in_proj", 3 * width)]
        self.projection = JoinedLinear(weights, parts, width, bias=bias, input_norm=input_norm)
        conv = weights.scope("conv")
        self.conv = convolution_taps(conv, width, shape.taps)
        self.bias = conv.tensor("bias", (width,), torch.float32) if bias else None
        self.output = Linear(weights, "out_proj", width, width, bias=bias)

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        if not forward.memory.is_step:
            return in_runs(self._runs, hidden, forward.memory, slot)
        (projected,) = self.projection(hidden, True)

        def advance(state: LayerState, count: int) -> Tensor:
            return self._convolved(projected[:count], *state)

        return self.output(forward.memory.advance(slot, advance), True)

    def _runs(self, hidden: Tensor, runs: Runs) -> Tensor:
        (projected,) = self.projection(hidden)
        outputs, start = [], 0
        for num_rows, state in runs:
            outputs.append(self._convolved(projected[start : start + num_rows], *state))
            start += num_rows
        return self.output(outputs[0] if len(outputs) == 1 else torch.cat(outputs))

    def _convolved(self, projected: Tensor, tail: Tensor) -> Tensor:
        return self._ops.short_conv(projected, tail, self.conv, self.bias)
