"""Matrices of what was kept of them: joined, sliced, or several that lie one below the other.

What is held goes as it is packed, so that nothing lies in memory twice.
"""

from __future__ import annotations

import torch
from torch import Tensor

from core.weights.memory import FREED
from kernels.linear.reference import Matrix, QuantisedTensors, StackedMatrix, WeightFormat


def joined(tensors: list[Tensor]) -> Tensor:
    """One below the other."""
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def held_bytes(kept: QuantisedTensors) -> int:
    """Bytes of what is held of a weight."""
    return sum(each.nbytes for each in kept)


def stacked(
    slices: list[QuantisedTensors], biases: list[Tensor], weight_format: WeightFormat
) -> Matrix:
    """Matrices too large to be copied at once: each slice is packed, and gone, before the next."""
    matrices: list[Matrix] = []
    widths: list[int] = []
    bias, start = joined(biases) if biases else None, 0
    slices.reverse()
    while slices:
        kept = slices.pop()
        widths.append(kept[0].shape[0])
        end = start + widths[-1]
        matrices.append(weight_format.prepack(kept, None if bias is None else bias[start:end]))
        start = end
        gone = held_bytes(kept)
        del kept
        FREED.add(gone)
    return StackedMatrix(matrices, widths)


def apart(
    slices: list[QuantisedTensors], num_outputs: int, weight_format: WeightFormat
) -> list[Matrix]:
    """The matrices of `num_outputs` that lie one below the other: each slice has whole ones."""
    matrices: list[Matrix] = []
    slices.reverse()
    while slices:
        kept = slices.pop()
        gone = held_bytes(kept)
        split = [each.split(num_outputs) for each in kept]
        matrices += [weight_format.prepack(part, None) for part in zip(*split, strict=True)]
        del kept, split
        FREED.add(gone)
    return matrices
