"""Matrices as they were kept, row by row, for the compiled kernels.

One copy serves both ways. A few rows read the weight once and nothing else. Many go through torch's
own products: in bfloat16 and in 8-bit integers these put a plain weight in order as they go, which
costs nothing at 512 rows, and nibbles are turned into numbers first, some outputs at a time.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, get_num_threads
from torch.nn import functional as F

from kernels.linear.int4 import Int4Form, in_whole_groups
from kernels.linear.int8 import DequantisedMatrix, Int8Form, quantise_inputs
from kernels.linear.reference import Kept, Matrix, PlainForm
from kernels.native.library import MOST_NUMBERS, TYPES, Library, address

# Up to these rows the compiled product is faster than torch's of a plain weight.
FEW_BFLOATS, FEW_INTEGERS, FEW_NIBBLES = 8, 32, 32
_SUMS = 2**20  # of integer products at a time: they stay in a processor's cache
_FLOATS = 2**21  # numbers unpacked at a time: 4 MB in bfloat16


class _NativeMatrix:
    """What the three have in common: the library, a bias, and when a compiled product can be."""

    def __init__(self, library: Library, *tensors: Tensor | None) -> None:
        self._library = library
        self.num_bytes = sum(each.nbytes for each in tensors if each is not None)

    def __del__(self) -> None:
        # A thread that was put off may still read a weight whose product is long there.
        self._library.quiet()

    @staticmethod
    def _takes(inputs: Tensor, bias: Tensor | None, few: int, width: int) -> bool:
        """Whether there are few rows, `width` numbers wide, of a type that the kernels read."""
        alike = bias is None or bias.dtype == inputs.dtype
        fits = 1 <= inputs.shape[0] <= few and inputs.shape[0] * width <= MOST_NUMBERS
        return fits and alike and inputs.dtype in TYPES


class NativeBfloatMatrix(_NativeMatrix):
    """A `Matrix` (kernels.linear.reference) of bfloat16."""

    def __init__(self, library: Library, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(library, weight, bias)
        self._weight, self._bias = weight.contiguous(), bias

    def __call__(self, inputs: Tensor) -> Tensor:
        """As `Matrix`."""
        few = self._takes(inputs, self._bias, FEW_BFLOATS, inputs.shape[1])
        if not few or inputs.dtype != self._weight.dtype:
            return F.linear(inputs, self._weight, self._bias)
        rows, outputs = inputs.shape[0], self._weight.shape[0]
        given, result = inputs.contiguous(), inputs.new_empty(rows, outputs)
        self._library.linear_bfloat(
            *map(address, (given, self._weight, self._bias, result)), rows, outputs,
            inputs.shape[1], get_num_threads(),
        )  # fmt: skip
        return result


class NativeIntegerMatrix(_NativeMatrix):
    """A `Matrix` of 8-bit integers with a scale for each row."""

    def __init__(
        self, library: Library, values: Tensor, scales: Tensor, bias: Tensor | None, exact: bool
    ) -> None:
        """`exact`: torch multiplies integers of any size exactly, else they become floats."""
        super().__init__(library, values, scales, bias)
        self._values, self._scales, self._bias = values.contiguous(), scales.flatten(), bias
        self._floats = None if exact else DequantisedMatrix(values, scales, bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        """As `Matrix`."""
        if self._takes(inputs, self._bias, FEW_INTEGERS, inputs.shape[1]):
            return self._few_rows(inputs.contiguous())
        if self._floats is not None or inputs.dtype not in TYPES:
            floats = self._floats or DequantisedMatrix(self._values, self._scales, self._bias)
            return floats(inputs)
        return self._many_rows(inputs)

    def _few_rows(self, inputs: Tensor) -> Tensor:
        result = inputs.new_empty(inputs.shape[0], self._values.shape[0])
        self._library.linear_int8(
            *map(address, (inputs, self._values, self._scales, self._bias, result)),
            inputs.shape[0], *self._values.shape, inputs.dtype == torch.bfloat16, get_num_threads(),
        )  # fmt: skip
        return result

    def _many_rows(self, inputs: Tensor) -> Tensor:
        integers, row_scales = quantise_inputs(inputs)
        num_rows, num_outputs = inputs.shape[0], self._values.shape[0]
        results = inputs.new_empty(num_rows, num_outputs)
        bias = self._bias if self._bias is None else self._bias.to(inputs.dtype)
        outputs = max(64, _SUMS // max(1, num_rows) // 64 * 64)
        for start in range(0, num_outputs, outputs):
            block = slice(start, start + outputs)
            sums = torch._int_mm(integers, self._values[block].T)
            self._library.scale_sums(
                sums.data_ptr(), self._scales[block].data_ptr(), row_scales.data_ptr(),
                address(None if bias is None else bias[block]), results[:, block].data_ptr(),
                *sums.shape, num_outputs, inputs.dtype == torch.bfloat16, get_num_threads(),
            )  # fmt: skip
        return results


class NativeNibbleMatrix(_NativeMatrix):
    """A `Matrix` of 4-bit integers in groups."""

    def __init__(
        self, library: Library, values: Tensor, scales: Tensor, bias: Tensor | None
    ) -> None:
        """As `kernels.linear.int4.Int4Form` keeps them."""
        super().__init__(library, values, scales, bias)
        self._values, self._scales, self._bias = values.contiguous(), scales.contiguous(), bias

    def __call__(self, inputs: Tensor) -> Tensor:
        """As `Matrix`."""
        if self._takes(inputs, self._bias, FEW_NIBBLES, 2 * self._values.shape[1]):
            return self._few_rows(inputs.contiguous())
        return self._many_rows(in_whole_groups(inputs))

    def _few_rows(self, inputs: Tensor) -> Tensor:
        outputs, halves = self._values.shape
        result = inputs.new_empty(inputs.shape[0], outputs)
        self._library.linear_int4(
            *map(address, (inputs, self._values, self._scales, self._bias, result)),
            inputs.shape[0], outputs, 2 * halves, inputs.shape[1],
            inputs.dtype == torch.bfloat16, get_num_threads(),
        )  # fmt: skip
        return result

    def _many_rows(self, inputs: Tensor) -> Tensor:
        num_outputs, num_inputs = self._values.shape[0], inputs.shape[1]
        results = inputs.new_empty(inputs.shape[0], num_outputs)
        kind = torch.bfloat16 if inputs.dtype == torch.bfloat16 else torch.float32
        outputs = max(64, _FLOATS // max(1, num_inputs) // 64 * 64)
        room = torch.empty(min(outputs, num_outputs), num_inputs, dtype=kind)
        for start in range(0, num_outputs, outputs):
            block = slice(start, start + outputs)
            values = self._values[block]
            floats = room[: values.shape[0]]
            self._library.unpack_int4(
                *map(address, (values, self._scales[block], floats)), *floats.shape,
                kind == torch.bfloat16, get_num_threads(),
            )  # fmt: skip
            bias = None if self._bias is None else self._bias[block].to(inputs.dtype)
            results[:, block] = F.linear(inputs, floats.to(inputs.dtype), bias)
        return results


class NativeBfloatForm(PlainForm):
    """Weights as published, in bfloat16."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def pack(self, kept: Kept, bias: Tensor | None) -> Matrix:
        """As `Form` (kernels.linear.reference)."""
        (weight,) = kept
        if weight.dtype != torch.bfloat16:
            return super().pack(kept, bias)
        return NativeBfloatMatrix(self._library, weight, bias)


class NativeInt8Form(Int8Form):
    """Weights as 8-bit integers."""

    def __init__(self, library: Library) -> None:
        super().__init__(None)
        self._library = library

    def pack(self, kept: Kept, bias: Tensor | None) -> Matrix:
        """As `Form`."""
        values, scales = kept
        exact = multiplies_plain_integers()
        return NativeIntegerMatrix(self._library, values, scales, bias, exact)


class NativeInt4Form(Int4Form):
    """Weights as 4-bit integers in groups."""

    def __init__(self, library: Library) -> None:
        super().__init__(packed=False)
        self._library = library

    def pack(self, kept: Kept, bias: Tensor | None) -> Matrix:
        """As `Form`."""
        values, scales = kept
        return NativeNibbleMatrix(self._library, values, scales, bias)


@cache
def multiplies_plain_integers() -> bool:
    """Whether torch multiplies plain 8-bit numbers of any size exactly, which not all oneDNN do."""
    values = torch.full((64, 64), -127, dtype=torch.int8)
    values[::2] = 127
    inputs = torch.full((40, 64), 127, dtype=torch.int8)
    inputs[1, ::3] = -127
    try:
        found = torch._int_mm(inputs, values.T)
    except (AttributeError, RuntimeError):  # a build of torch, or a processor, without it
        return False
    return torch.equal(found.long(), inputs.long() @ values.long().T)
