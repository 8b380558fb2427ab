"""Products with a model's matrices as a GPU holds them, beside torch's own product of bfloat16."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.dispatch import backend
from kernels.linear.reference import Integers, Matrix, WeightFormat
from tests.bench.gpu.case import PLAIN, Call, Case, Numbers, copied, rows


def matrix_cases(numbers: Numbers, dtype: torch.dtype, integers: Integers | None) -> Iterator[Case]:
    """One row, a few and a run times the largest matrices of a block."""
    shape = numbers.sizes.shape
    weight_format = backend("gpu", dtype, integers=integers).formats.usual
    for name, inputs, outputs in (
        ("gate and up", shape.hidden, 2 * shape.mlp),
        ("down", shape.mlp, shape.hidden),
    ):
        weight = numbers.normal(outputs, inputs, dtype=dtype) / math.sqrt(inputs)
        held = _held(weight_format, weight, numbers)
        for count in (*numbers.sizes.few_rows, numbers.sizes.run):
            yield product(numbers, name, held, weight, count, integers)


def product(
    numbers: Numbers,
    name: str,
    held: list[Matrix],
    weight: Tensor,
    count: int,
    integers: Integers | None,
) -> Case:
    """Each weight and row once. Plain torch has no part in it where the matrix is torch's own."""
    given = numbers.normal(count, weight.shape[1], dtype=weight.dtype)
    moved = held[0].num_bytes + given.nbytes + given.itemsize * count * weight.shape[0]
    others: dict[str, Call | str] = {PLAIN: _torchs(held, weight, given)} if integers else {}
    return Case(
        name=f"{name}, {rows(count)}",
        run=lambda number: held[number](given),
        copies=len(held),
        least_bytes=moved,
        operations=2 * count * weight.numel(),
        others=others,
    )


def _held(weight_format: WeightFormat, weight: Tensor, numbers: Numbers) -> list[Matrix]:
    """The same weight so often that a GPU's cache can't hold it."""
    kept = weight_format.quantise(weight)

    def pack() -> Matrix:
        return weight_format.prepack(tuple(each.clone() for each in kept), None)

    first = pack()
    return [first, *(pack() for _ in range(numbers.copies_of(first.num_bytes) - 1))]


def _torchs(held: list[Matrix], weight: Tensor, given: Tensor) -> Call:
    """Torch's product on plain matrices of the same numbers, as often apart."""
    # Times ones on a diagonal, a matrix says what it holds.
    floats = held[0](torch.eye(weight.shape[1], dtype=weight.dtype, device=weight.device))
    plain = copied(floats.T.contiguous(), len(held))
    return lambda number: F.linear(given, plain[number])
