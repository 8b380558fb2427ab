"""The two-matrix and three-matrix feed-forward layers."""

from __future__ import annotations

from functools import partial

from torch import Tensor
from torch.nn import functional as F

from core.layers.linear import JoinedLinear, Linear
from core.layers.rows import in_row_blocks
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import GateShape, SquaredReluShape


class SwiGLU:
    """down(silu(m gate x) * up x) (Shazeer 2020, arXiv:2002.05202); m is 1 but in some families."""

    _gelu = False

    def __init__(
        self,
        weights: Weights,
        width: int,
        inner_width: int,
        *,
        bias: bool = False,
        input_norm: InputNorm | None = None,
        gate_multiplier: float = 1.0,
        names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj"),
    ) -> None:
        """`input_norm` as in `JoinedLinear`; `gate_multiplier` is m.

        `names` are the published ones: of gate and up, or of both in one, and of down.
        """
        *inner, down = names
        parts = [(name, 2 * inner_width // len(inner)) for name in inner]
        self.gate_and_up = JoinedLinear(weights, parts, width, bias=bias, input_norm=input_norm)
        self.down = Linear(weights, down, inner_width, width, bias=bias)
        ops = weights.ops(GateShape(inner_width, self._gelu))
        swiglu = partial(ops.swiglu, multiplier=gate_multiplier)
        self._product = ops.geglu if self._gelu else swiglu
        self._numbers = 3 * inner_width

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        """[n, width] -> [n, width]; `is_step` as in `LayerMemory`."""
        return in_row_blocks(partial(self._block, is_step=is_step), hidden, self._numbers)

    def _block(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        outputs = self.gate_and_up(hidden, is_step)
        gate, up = outputs if len(outputs) == 2 else outputs[0].chunk(2, dim=1)
        return self.down(self._product(gate, up), is_step)


class GeGLU(SwiGLU):
    """down(gelu(gate x) * up x), gelu in its tanh form (Shazeer 2020, arXiv:2002.05202)."""

    _gelu = True


class SquaredReluMLP:
    """down(relu(up x)^2) (So et al. 2021, arXiv:2109.08668)."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        inner_width: int,
        *,
        bias: bool = False,
        input_norm: InputNorm | None = None,
    ) -> None:
        """`input_norm` as in `JoinedLinear`."""
        parts = [("up_proj", inner_width)]
        self.up = JoinedLinear(weights, parts, width, bias=bias, input_norm=input_norm)
        self.down = Linear(weights, "down_proj", inner_width, width, bias=bias)
        self._squared_relu = weights.ops(SquaredReluShape(inner_width)).squared_relu
        self._numbers = 2 * inner_width

    def __call__(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        """[n, width] -> [n, width]; `is_step` as in `LayerMemory`."""
        return in_row_blocks(partial(self._block, is_step=is_step), hidden, self._numbers)

    def _block(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        (inner,) = self.up(hidden, is_step)
        return self.down(self._squared_relu(inner), is_step)


class GeluMLP:
    """fc2(gelu(fc1 x)); `approximate` is torch's name for the form of gelu.

    `names` are the published ones of the two matrices.
    """

    def __init__(
        self,
        weights: Weights,
        width: int,
        inner_width: int,
        out_width: int,
        approximate: str,
        names: tuple[str, str] = ("linear_fc1", "linear_fc2"),
        *,
        bias: bool = True,
    ) -> None:
        first, second = names
        self.first = Linear(weights, first, width, inner_width, bias=bias)
        self.second = Linear(weights, second, inner_width, out_width, bias=bias)
        self.approximate = approximate
        self._numbers = 2 * inner_width

    def __call__(self, hidden: Tensor) -> Tensor:
        """[n, width] -> [n, out_width]."""
        return in_row_blocks(self._block, hidden, self._numbers)

    def _block(self, hidden: Tensor) -> Tensor:
        return self.second(F.gelu(self.first(hidden), approximate=self.approximate))
