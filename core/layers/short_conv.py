"""The gated short convolution of LFM2: a mixer that remembers a few rows and nothing else.

out_proj(C * conv(B * x)), where B, C and x are one projection of the input and the convolution is
causal and depthwise. Its memory is the last rows of B * x.
"""

from __future__ import annotations

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.layers.memory import LayerMemory, LayerState, RecurrentSpec, StateTensor
from core.layers.runs import Runs, in_runs
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import ShortConvShape


class ShortConv:
    """One mixer of `width` channels over `taps` tokens; long runs go through it in blocks.

    `bias` is of both projections and of the convolution, `input_norm` as in `JoinedLinear`.
    """

    def __init__(
        self,
        weights: Weights,
        width: int,
        taps: int,
        *,
        bias: bool,
        input_norm: InputNorm | None = None,
    ) -> None:
        self.spec = RecurrentSpec((StateTensor((taps - 1, width), weights.dtype),))
        self._ops = weights.ops(ShortConvShape(width, taps))
        parts = [("in_proj", 3 * width)]
        self.projection = JoinedLinear(weights, parts, width, bias=bias, input_norm=input_norm)
        conv = weights.tensor("conv.weight", (width, 1, taps), torch.float32)
        self.conv = conv.squeeze(1).T.contiguous()
        self.bias = weights.tensor("conv.bias", (width,), torch.float32) if bias else None
        self.output = Linear(weights, "out_proj", width, width, bias=bias)

    def __call__(self, hidden: Tensor, memory: LayerMemory, layer: int) -> Tensor:
        """`hidden` [n, width], normalised -> [n, width]."""
        if memory.is_step:
            (projected,) = self.projection(hidden, True)

            def advance(state: LayerState, count: int) -> Tensor:
                return self._convolved(projected[:count], *state)

            return self.output(memory.advance(layer, advance), True)
        return in_runs(self._runs, hidden, memory, layer)

    def _runs(self, hidden: Tensor, runs: Runs) -> Tensor:
        """The output [n, width] of `runs`."""
        (projected,) = self.projection(hidden)
        outputs, start = [], 0
        for num_rows, state in runs:
            outputs.append(self._convolved(projected[start : start + num_rows], *state))
            start += num_rows
        return self.output(outputs[0] if len(outputs) == 1 else torch.cat(outputs))

    def _convolved(self, projected: Tensor, tail: Tensor) -> Tensor:
        return self._ops.short_conv(projected, tail, self.conv, self.bias)
