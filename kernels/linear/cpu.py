"""Matrices packed by oneDNN, which a processor reads faster than [outputs, inputs].

They are packed for one row, because generating waits for memory, or for many if a matrix never sees
a single row; longer inputs go through in slices of `rows`. The best slice is measured (`probe`): on
an AMD Zen 5, 512 rows reach 352 GFLOP/s at once and 946 in slices of 64.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from kernels.linear.reference import Matrix, PlainFormat, QuantisedTensors, bytes_of

_MANY = 1024  # patches of a picture of 512 by 512


def can_pack(dtype: torch.dtype) -> bool:
    if not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or (
        dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


class PackedMatrix(Matrix):
    def __init__(self, weight: Tensor, bias: Tensor | None, rows: int | None) -> None:
        usual = _MANY if rows is None else 1
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, usual)
        self._bias = bias
        self._rows = rows
        self.num_outputs = weight.shape[0]
        self.num_bytes = bytes_of(weight, bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        if self._rows is None or inputs.shape[0] <= self._rows:
            return self._multiply(inputs)
        return torch.cat([self._multiply(block) for block in torch.split(inputs, self._rows)])

    def _multiply(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, self._packed, self._bias, "none", [], ""
        )
        return outputs


class PackedFormat(PlainFormat):
    is_plain = False

    def __init__(self, rows: int | None) -> None:
        self._rows = rows

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        (weight,) = kept
        return PackedMatrix(weight, bias, self._rows)


# One row is what generating waits for, a block of rows what a prompt is read by.
ROWS = (1, 64)
OUTPUTS, INPUTS = 512, 1024
_FEWEST_ROUNDS = 3
# Past this a product is given up: a round should have taken a millisecond.
GIVEN_UP_S = 0.2
# A busy machine's noise must not turn the answer from one start to the next: products of integers
# are some times faster than plain torch's, or a hundred times slower.
MARGIN = 1.1
# So much slower in two rounds that no noise explains it.
_HOPELESS = 20.0

Product = Callable[[int], object]
"""Multiplies that many rows of INPUTS with a weight [OUTPUTS, INPUTS]."""
Clock = Callable[[], float]


def keeps_up(product: Product, plain: Product, clock: Clock = time.perf_counter) -> bool:
    """True if `product` takes at most MARGIN times as long as `plain`, by the best round.

    It stops at the first round that shows it, else after three for each number of rows and
    GIVEN_UP_S.
    """
    # Work done once, at the first call, is not part of a product.
    product(1), plain(1)
    return all(_keeps_up(product, plain, rows, clock) for rows in ROWS)


def _keeps_up(product: Product, plain: Product, rows: int, clock: Clock) -> bool:
    began, rounds = clock(), 0
    best = usual = float("inf")
    while rounds < _FEWEST_ROUNDS or clock() - began < GIVEN_UP_S:
        rounds += 1
        before = clock()
        product(rows)
        between = clock()
        plain(rows)
        after = clock()
        best, usual = min(best, between - before), min(usual, after - between)
        if best <= MARGIN * usual:
            return True
        if rounds > 1 and best > GIVEN_UP_S / 2 and best > _HOPELESS * usual:
            break
    return False
