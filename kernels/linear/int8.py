"""Matrices of 8-bit integers, one scale a row, multiplied as integers.

    W[o, i] = s_o q[o, i],  q in -127 .. 127;  x[n, i] ~ t_n p[n, i];  y = t_n s_o sum_i p q

The sum is exact in int32. Rows of inputs have scales of their own, so that a later token can't
change an earlier one. oneDNN gets unsigned inputs, p + 128: without AMX its code for signed ones
reaches 0.2 instead of 490 GOP/s. Integers become floats if the processor has no exact product
(without VNNI oneDNN's pairs overflow 16 bits) or a slow one.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.common.memory import room
from kernels.linear.cpu import INPUTS, OUTPUTS, ROWS, Product, keeps_up
from kernels.linear.reference import Matrix, QuantisedTensors, WeightFormat, bytes_of

_LARGEST = 127
_BLOCK = 2**18  # numbers quantised at a time: their floats stay in a processor's cache
_SMALLEST = 1e-30  # instead of zero as the scale of a row
_ZERO_POINT = 128


def quantise_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Floats [outputs, inputs] -> int8 and float32 scales [outputs, 1]."""
    values = room(weight.shape, torch.int8, weight.device)
    scales = torch.empty(weight.shape[0], 1, device=weight.device)
    rows = max(1, _BLOCK // max(1, weight.shape[1]))
    for start in range(0, weight.shape[0], rows):
        block = slice(start, start + rows)
        values[block], scales[block] = quantise_inputs(weight[block])
    return values, scales


def quantise_inputs(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Floats [n, inputs] -> int8 and the scale of each row [n, 1] float32."""
    floats = inputs.to(torch.float32, copy=True)
    # Two passes: torch's norm for the largest number takes six times as long over 512 rows.
    # By a tensor: by a number a GPU multiplies with its inverse, which rounds otherwise.
    largest = floats.new_full((), _LARGEST)
    scales = floats.abs().amax(1, keepdim=True).div_(largest).clamp_min_(_SMALLEST)
    return floats.div_(scales).round_().to(torch.int8), scales


class IntegerMatrix(Matrix):
    def __init__(self, values: Tensor, scales: Tensor, bias: Tensor | None, rows: int) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(values, [1, values.shape[1]])
        self._scales = scales.flatten()
        self._zeros = torch.zeros(values.shape[0], dtype=torch.int32)
        self._bias = bias
        self._rows = rows
        self.num_bytes = bytes_of(values, scales, bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        if inputs.shape[0] <= self._rows:
            return self._multiply(inputs).to(inputs.dtype)
        outputs = inputs.new_empty(inputs.shape[0], self._scales.shape[0])
        for start in range(0, inputs.shape[0], self._rows):
            block = slice(start, start + self._rows)
            outputs[block] = self._multiply(inputs[block])  # rounded while it is in the cache
        return outputs

    def _multiply(self, inputs: Tensor) -> Tensor:
        integers, scales = quantise_inputs(inputs)
        sums = _integer_product(integers, self._packed, self._scales, self._zeros).mul_(scales)
        if self._bias is not None:
            sums += self._bias
        return sums


class DequantisedMatrix(Matrix):
    """A block at a time."""

    def __init__(self, values: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        self._values, self._scales, self._bias = values, scales, bias
        self.num_bytes = bytes_of(values, scales, bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        rows = max(1, _BLOCK // max(1, self._values.shape[1]))
        sums = torch.cat(
            [F.linear(inputs, each.to(inputs.dtype)) for each in torch.split(self._values, rows)],
            dim=1,
        )
        scaled = sums.float() * self._scales.flatten()
        if self._bias is not None:
            scaled += self._bias
        return scaled.to(inputs.dtype)


class Int8Format(WeightFormat):
    """Multiplied in slices of `rows` rows, or as floats if None."""

    is_plain = False
    quantises = True

    def __init__(self, rows: int | None) -> None:
        self._rows = rows

    def quantise(self, weight: Tensor) -> QuantisedTensors:
        return quantise_rows(weight)

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        values, scales = kept
        if self._rows is None:
            return DequantisedMatrix(values, scales, bias)
        return IntegerMatrix(values, scales, bias, self._rows)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        return torch.Size(shape).numel() + 4 * shape[0]


@cache
def multiplies_integers() -> bool:
    """True if oneDNN multiplies all 8-bit numbers here exactly, and no slower than plain torch."""
    return (
        torch.backends.mkldnn.is_available()
        and _is_exact()
        and keeps_up(*_integer_and_float_product())
    )


def _is_exact() -> bool:
    values = torch.full((16, 64), -_LARGEST, dtype=torch.int8)
    values[::2] = _LARGEST
    inputs = torch.full((2, 64), _LARGEST, dtype=torch.int8)
    inputs[1, ::3] = -_LARGEST
    try:
        packed = torch.ops.onednn.qlinear_prepack(values, [1, 64])
        ones, zeros = torch.ones(16), torch.zeros(16, dtype=torch.int32)
        found = _integer_product(inputs, packed, ones, zeros)
    except (AttributeError, RuntimeError):  # a build of torch, or a processor, without it
        return False
    return torch.equal(found.long(), inputs.long() @ values.long().T)


def _integer_and_float_product() -> tuple[Product, Product]:
    values = torch.ones(OUTPUTS, INPUTS, dtype=torch.int8)
    scales = torch.ones(OUTPUTS, 1)
    matrices = (
        IntegerMatrix(values, scales, None, max(ROWS)),
        DequantisedMatrix(values, scales, None),
    )
    inputs = torch.ones(max(ROWS), INPUTS)
    integers, floats = ((lambda rows, of=each: of(inputs[:rows])) for each in matrices)
    return integers, floats


def _integer_product(inputs: Tensor, packed: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """int8 [n, inputs] by a packed weight, times `scales` [outputs]: float32 [n, outputs]."""
    unsigned = inputs.view(torch.uint8) ^ _ZERO_POINT  # the same as adding it to int8
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        unsigned, 1.0, _ZERO_POINT, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [],
        "",
    )  # fmt: skip
    return product
