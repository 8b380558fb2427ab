"""What is known of a tensor before a byte of it is read: its shape, its type, what it is for."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from core.weights.smoothing import InputNorm
from kernels.linear.reference import PLAIN, WeightFormats

Shape = tuple[int, ...]


class Use(enum.Flag):
    """What a model does with a tensor."""

    TENSOR = enum.auto()
    """Any arithmetic of its own."""
    MATRIX = enum.auto()
    """Multiplies by it, in whatever format the kernels like."""
    TABLE = enum.auto()
    """Looks up single rows."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape of a tensor, the type it has once loaded if it stays plain, and what it is for."""

    shape: Shape
    dtype: torch.dtype
    use: Use = Use.TENSOR
    exact: bool = False
    """A matrix that is never quantised."""
    input_norm: InputNorm | None = None
    """The norm whose result this matrix reads, if only matrices read it."""
    stack: int | None = None
    """Of so many matrices of equal size, one below the other: the file has an axis for them."""
    transposed: bool = False
    """The file has inputs before outputs of each matrix of a stack."""

    @property
    def stored_shape(self) -> Shape:
        """The shape in the file."""
        if self.stack is None:
            return self.shape
        outputs, inputs = self.shape[0] // self.stack, self.shape[1]
        return (self.stack, inputs, outputs) if self.transposed else (self.stack, outputs, inputs)

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        return self.num_elements * self.dtype.itemsize


WeightPlan = Mapping[str, TensorSpec]


def planned_bytes(plan: WeightPlan, formats: WeightFormats = PLAIN) -> int:
    """Bytes that the planned tensors take once loaded."""
    return sum(_bytes(spec, formats) for spec in plan.values())


def _bytes(spec: TensorSpec, formats: WeightFormats) -> int:
    if Use.MATRIX not in spec.use:
        return 0 if spec.use == Use.TABLE and formats.rows_from_file else spec.num_bytes
    weight_format = formats.of(spec.exact)
    looked_up = Use.TABLE in spec.use and not formats.rows_from_file and not weight_format.is_plain
    return weight_format.num_bytes(spec.shape, spec.dtype) + (spec.num_bytes if looked_up else 0)
