"""Linear maps y = x W^T (+ b): one, or several of the same inputs as one.

Knows what belongs together. How a matrix is kept and multiplied is the kernels' (kernels.linear).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from core import watchdog
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm


class Linear:
    """y = x W^T + b in the model's type; `name` is the published scope in `weights`."""

    def __init__(
        self, weights: Weights, name: str, num_inputs: int, num_outputs: int, *, bias: bool = False
    ) -> None:
        self.matrix = weights.matrix([(name, num_outputs)], num_inputs, bias=bias)

    def __call__(self, inputs: Tensor, is_step: bool = False) -> Tensor:
        """[n, num_inputs] -> [n, num_outputs]; `is_step` as in `LayerMemory`."""
        watchdog.report_progress()
        return self.matrix.step(inputs) if is_step else self.matrix(inputs)


class JoinedLinear:
    """Several maps of the same inputs: one matrix, read in one call.

    `parts` are published scopes in `weights` with their numbers of outputs; `input_norm` is the
    norm whose result nothing else reads. With `reordered`, widths and an order as `Weights.matrix`
    has it, outputs are put in that order first, and split by these widths.
    """

    def __init__(
        self,
        weights: Weights,
        parts: Sequence[tuple[str, int]],
        num_inputs: int,
        *,
        bias: bool = False,
        input_norm: InputNorm | None = None,
        reordered: tuple[list[int], Callable[[], Tensor]] | None = None,
    ) -> None:
        published = [num_outputs for _, num_outputs in parts], None
        self._widths, order = reordered or published
        self.matrix = weights.matrix(
            parts, num_inputs, bias=bias, input_norm=input_norm, order=order
        )

    def __call__(self, inputs: Tensor, is_step: bool = False) -> tuple[Tensor, ...]:
        """[n, num_inputs] -> for each width a view [n, its outputs] of one tensor."""
        watchdog.report_progress()
        outputs = self.matrix.step(inputs) if is_step else self.matrix(inputs)
        return torch.split(outputs, self._widths, dim=1)
