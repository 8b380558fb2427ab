"""Linear maps y = x W^T (+ b): one, or several of the same inputs as one matrix."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from core import watchdog
from core.weights.plan import Orders, Weights
from core.weights.smoothing import InputNorm


class Linear:
    """A map in the model's type; `name` is the published scope."""

    def __init__(
        self, weights: Weights, name: str, num_inputs: int, num_outputs: int, *, bias: bool = False
    ) -> None:
        self.matrix = weights.matrix([(name, num_outputs)], num_inputs, bias=bias)

    def __call__(self, inputs: Tensor, is_step: bool = False) -> Tensor:
        """[n, num_inputs] -> [n, num_outputs]; `is_step` as in `LayerMemory`."""
        watchdog.report_progress()
        return self.matrix.step(inputs) if is_step else self.matrix(inputs)


class JoinedLinear:
    """Maps of the same inputs, stored as one matrix. `parts` are published scopes with their
    outputs; `input_norm` is the norm before them, if nothing else reads its result. `reordered`:
    widths to split the outputs by, and the order of each part's rows, as in `Weights.matrix`."""

    def __init__(
        self,
        weights: Weights,
        parts: Sequence[tuple[str, int]],
        num_inputs: int,
        *,
        bias: bool = False,
        input_norm: InputNorm | None = None,
        reordered: tuple[list[int], Orders] | None = None,
    ) -> None:
        published = [num_outputs for _, num_outputs in parts], ()
        self._widths, orders = reordered or published
        self.matrix = weights.matrix(
            parts, num_inputs, bias=bias, input_norm=input_norm, orders=orders
        )

    def __call__(self, inputs: Tensor, is_step: bool = False) -> tuple[Tensor, ...]:
        """[n, num_inputs] -> a view [n, outputs] of one tensor for each part."""
        watchdog.report_progress()
        outputs = self.matrix.step(inputs) if is_step else self.matrix(inputs)
        return torch.split(outputs, self._widths, dim=1)
