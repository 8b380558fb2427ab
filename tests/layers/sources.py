"""Random weights for a layer built on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.layers.linear import JoinedLinear, Linear
from core.weights.packing import Slices
from core.weights.plan import Weights
from core.weights.spec import TensorSpec
from core.weights.table import HeldTable, Table
from kernels.linear.reference import PlainMatrix, WeightFormats
from kernels.ops import PLAIN_OPS, Ops


@dataclass(frozen=True)
class Drawn:
    """A `Source` that makes every tensor when it is asked for it."""

    draw: Callable[[str, TensorSpec], Tensor]

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        return self.draw(name, spec)

    def matrix(self, name: str, spec: TensorSpec) -> Slices:
        return Slices([(self.draw(name, spec),)])

    def table(self, name: str, spec: TensorSpec) -> Table:
        return HeldTable(self.draw(name, spec))


@dataclass(frozen=True)
class Quantising(Drawn):
    """One whose matrices are held in some formats."""

    formats: WeightFormats

    def matrix(self, name: str, spec: TensorSpec) -> Slices:
        return Slices([self.formats.of(spec.exact).quantise(self.draw(name, spec))])


def drawn(name: str, spec: TensorSpec) -> Tensor:
    """The same numbers for the same name."""
    seed = sum(name.encode()) + 31 * len(name)
    numbers = torch.randn(spec.shape, generator=torch.Generator().manual_seed(seed)) * 0.4
    return numbers.to(spec.dtype)


def random_weights(
    dtype: torch.dtype = torch.float32, seed: int = 0, ops: Ops = PLAIN_OPS
) -> Weights:
    """Answers every question with small random numbers of the shape asked for."""
    generator = torch.Generator().manual_seed(seed)

    def draw(_: str, spec: TensorSpec) -> Tensor:
        numbers = torch.randn(spec.shape, generator=generator) * 0.3
        return numbers.to(spec.dtype)

    return Weights(Drawn(draw), dtype, ops=ops)


def weight_of(layer: Linear | JoinedLinear) -> Tensor:
    """The layer's weight [outputs, inputs], its parts one below the other."""
    assert isinstance(layer.matrix, PlainMatrix)
    return layer.matrix.weight
