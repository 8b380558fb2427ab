"""Packs what was read of a matrix into the kernels' layout, part by part: a matrix isn't in memory
twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from core.weights.memory import CPU, FREED
from kernels.linear.blocks import BlockFormat, StoredRows
from kernels.linear.reference import Matrix, QuantisedTensors, StackedMatrix, StoredFormat


class StoredBlocks(NamedTuple):
    rows: StoredRows
    format: BlockFormat
    device: torch.device


Slices = list[QuantisedTensors]
"""The slices of a matrix, first row first, in a format of the model."""


def _joined(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def _num_bytes(kept: QuantisedTensors) -> int:
    return sum(each.nbytes for each in kept)


def _in_order(slices: list[QuantisedTensors], rows: Tensor) -> QuantisedTensors:
    parts = (_joined(list(each)) for each in zip(*slices, strict=True))
    return tuple(each[rows.to(each.device)] for each in parts)


@dataclass(slots=True)
class Group:
    format: StoredFormat
    num_parts: int = 0
    slices: Slices = field(default_factory=list)
    rows: list[StoredRows] = field(default_factory=list)
    biases: list[Tensor] = field(default_factory=list)
    device: torch.device = CPU

    def add(self, found: Slices | StoredBlocks, order: Tensor | None) -> None:
        self.num_parts += 1
        if isinstance(found, StoredBlocks):
            rows, self.device = found.rows, found.device
            self.rows.append(rows if order is None else rows.in_order(order.cpu()))
        elif order is None:
            self.slices += found
        else:
            found[:] = [_in_order(found, order)]
            self.slices += found

    @property
    def num_outputs(self) -> int:
        stored = sum(rows.shape[0] for rows in self.rows)
        return stored + sum(kept[0].shape[0] for kept in self.slices)

    def pack(self) -> Matrix:
        if isinstance(self.format, BlockFormat):
            bias = _joined(self.biases) if self.biases else None
            return self.format.pack_rows(self.rows, bias, self.device)
        if len(self.slices) > self.num_parts:
            return _stacked(self.slices, self.biases, self.format)
        kept = tuple(_joined(list(each)) for each in zip(*self.slices, strict=True))
        self.slices.clear()  # frees the slices before the packed matrix is allocated
        matrix = self.format.prepack(kept, _joined(self.biases) if self.biases else None)
        freed = _num_bytes(kept)
        del kept
        FREED.add(freed)
        return matrix


def _stacked(
    slices: list[QuantisedTensors], biases: list[Tensor], weight_format: StoredFormat
) -> Matrix:
    """Too large to be copied at once: each slice is packed and freed before the next."""
    matrices: list[Matrix] = []
    widths: list[int] = []
    bias, start = _joined(biases) if biases else None, 0
    slices.reverse()
    while slices:
        kept = slices.pop()
        widths.append(kept[0].shape[0])
        end = start + widths[-1]
        matrices.append(weight_format.prepack(kept, None if bias is None else bias[start:end]))
        start = end
        freed = _num_bytes(kept)
        del kept
        FREED.add(freed)
    return StackedMatrix(matrices, widths)


def unstacked(
    slices: list[QuantisedTensors],
    num_outputs: int,
    weight_format: StoredFormat,
    biases: Sequence[Tensor | None],
    order: Tensor | None,
) -> list[Matrix]:
    matrices: list[Matrix] = []
    slices.reverse()
    while slices:
        kept = slices.pop()
        freed = _num_bytes(kept)
        split = [each.split(num_outputs) for each in kept]
        for part in zip(*split, strict=True):
            ordered = part if order is None else _in_order([part], order)
            matrices.append(weight_format.prepack(ordered, biases[len(matrices)]))
        del kept, split
        FREED.add(freed)
    return matrices
