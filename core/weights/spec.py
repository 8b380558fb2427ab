"""A tensor's shape, type and use, known before it is read, and sizes that follow."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from core.weights.smoothing import InputNorm
from kernels.blocks.types import GGUFType
from kernels.common.memory import LARGEST_COPY
from kernels.linear.blocks import BlockFormat
from kernels.linear.reference import PLAIN, StoredFormat, WeightFormats

Shape = tuple[int, ...]

# A matrix of more than twice these bytes is read in slices of whole rows: in another format it
# would otherwise be in memory twice, and an output head is a third of a small model.
SLICE_BYTES = 64 * 2**20
SLICE_ROWS = 1024  # slices have multiples of it


class Use(enum.Flag):
    TENSOR = enum.auto()
    """Any arithmetic of its own."""
    MATRIX = enum.auto()
    """Multiplies by it, in whatever format the kernels like."""
    TABLE = enum.auto()
    """Looks up single rows."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """`dtype` is the type once loaded unless quantised."""

    shape: Shape
    dtype: torch.dtype
    use: Use = Use.TENSOR
    exact: bool = False
    """A matrix that is never quantised."""
    input_norm: InputNorm | None = None
    """The norm whose result this matrix reads, if only matrices read it."""
    stack: int | None = None
    """The number of equal matrices, one below the other; the file has an axis for them."""
    transposed: bool = False
    """The file has inputs before outputs of each matrix of a stack."""
    in_file: bool = False
    """A table that is too large for memory: its rows are read from the file."""
    packed: bool = False
    """Stored in a published format whose rows can't be looked up in the file."""
    blocks: StoredFormat | None = None
    """The format in which a matrix is in its file and stays; None for a format of the model."""

    def format(self, formats: WeightFormats) -> StoredFormat:
        return formats.of(self.exact) if self.blocks is None else self.blocks

    def held_bytes(self, formats: WeightFormats) -> int:
        count = self.stack or 1
        shape = self.shape[0] // count, *self.shape[1:]
        return count * self.format(formats).num_bytes(shape, self.dtype)

    def stays_in_file(self, formats: WeightFormats) -> bool:
        from_file = self.in_file or formats.rows_from_file
        return self.use == Use.TABLE and from_file and not self.packed

    @property
    def stored_shape(self) -> Shape:
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
    return sum(held_in_memory(spec, formats) for spec in plan.values())


def held_in_memory(spec: TensorSpec, formats: WeightFormats) -> int:
    if Use.MATRIX not in spec.use:
        return 0 if spec.stays_in_file(formats) else spec.num_bytes
    weight_format = spec.format(formats)
    from_file = formats.rows_from_file and not spec.packed
    looked_up = Use.TABLE in spec.use and not from_file and not weight_format.is_plain
    scaled = isinstance(weight_format, BlockFormat) and weight_format.type is GGUFType.NVFP4
    scales = spec.shape[0] * torch.float32.itemsize if scaled else 0
    return spec.held_bytes(formats) + scales + (spec.num_bytes if looked_up else 0)


def bytes_to_read(spec: TensorSpec, formats: WeightFormats) -> int:
    """The bytes that one slice takes besides while it is transposed or quantised."""
    if Use.MATRIX not in spec.use:
        return 0
    copies = spec.transposed + (not spec.format(formats).is_plain)
    return max(slice_rows(spec, formats)) * _row_bytes(spec) * copies


def bytes_to_pack(specs: Sequence[TensorSpec], formats: WeightFormats) -> int:
    floats = [spec for spec in specs if not isinstance(spec.format(formats), BlockFormat)]
    sliced = [
        spec.held_bytes(formats) * max(rows) // sum(rows)
        for spec in floats
        if len(rows := slice_rows(spec, formats)) > 1
    ]
    whole = sum(spec.held_bytes(formats) for spec in floats)
    stays = len(floats) == 1 and _numbers_bytes(floats[0], whole, formats) > LARGEST_COPY
    return max(sliced) if sliced else 0 if stays else whole


def _numbers_bytes(spec: TensorSpec, whole: int, formats: WeightFormats) -> int:
    """Without scales, which are placed for themselves."""
    if spec.format(formats).is_plain:
        return whole
    return spec.num_elements // (1 if whole > spec.num_elements else 2)


def slice_rows(spec: TensorSpec, formats: WeightFormats) -> list[int]:
    """The rows of each slice in which a tensor is read; a stack in whole matrices, sliced even if
    it stays plain: its matrices are packed one by one, and would be in memory twice."""
    held = Use.TABLE in spec.use and not formats.rows_from_file
    plain = spec.stack is None and spec.format(formats).is_plain
    whole = held or plain or Use.MATRIX not in spec.use
    num_rows = spec.shape[0] if spec.shape else 1
    if whole or num_rows * _row_bytes(spec) <= 2 * SLICE_BYTES:
        return [num_rows]
    row_bytes = _row_bytes(spec)
    multiple = SLICE_ROWS if spec.stack is None else num_rows // spec.stack
    rows = max(1, SLICE_BYTES // row_bytes // multiple) * multiple
    return [min(rows, num_rows - start) for start in range(0, num_rows, rows)]


def _row_bytes(spec: TensorSpec) -> int:
    num_bytes = spec.num_bytes
    if spec.blocks is not None:
        num_bytes = spec.blocks.num_bytes(spec.shape, spec.dtype)
    return num_bytes // max(1, spec.shape[0])
