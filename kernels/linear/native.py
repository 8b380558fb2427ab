"""Matrices as they were kept, row by row, for the compiled kernels.

One copy serves both ways. A few rows read the weight once and nothing else. Many go through torch's
own products: in bfloat16 and in 8-bit integers these put a plain weight in order as they go, which
costs nothing at 512 rows, and int4 values are turned into numbers first, some outputs at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, get_num_threads
from torch.nn import functional as F

from kernels.linear.int4 import GROUP, Int4Format, in_whole_groups
from kernels.linear.int8 import DequantisedMatrix, Int8Format, quantise_inputs
from kernels.linear.reference import Matrix, PlainFormat, QuantisedTensors
from kernels.linear.trying import INPUTS, OUTPUTS, keeps_up
from kernels.native.arena import Arena
from kernels.native.library import MOST_NUMBERS, TYPES, Library, address

# Up to these rows the compiled product is faster than torch's of a plain weight, or than the matrix
# unit's.
FEW_BFLOATS, FEW_INTEGERS, FEW_INT4, FEW_ON_TILES = 8, 32, 32, 8
# Products of so many 8-bit integers at most add up in 32 bits, whatever they are.
_LONGEST_SUM = 2**16
# Rows that AMX takes at once, how long they may be to have room, and as how long they
# count at least: of the scales of rows there are MOST_NUMBERS / 16.
_BLOCK, _LONGEST_OF_MANY, _SHORTEST_OF_MANY = 32, MOST_NUMBERS // 32, 16
_SUMS = 2**20  # of integer products at a time: they stay in a processor's cache
_FLOATS = 2**21  # numbers unpacked at a time: 4 MB in bfloat16


class _NativeMatrix(Matrix):
    """What the three have in common: one compiled product of up to `few` rows."""

    # Rows of inputs are filled up with zeros to a multiple of this.
    _filled_up_to = 1

    def __init__(
        self,
        library: Library,
        product: Callable[..., None],
        few: int,
        shape: tuple[int, int],
        weight: Tensor,
        scales: Tensor | None,
        bias: Tensor | None,
    ) -> None:
        """`shape`: outputs, and inputs with those that fill up a row. `few` without tiles."""
        self._library, self._product, self._shape = library, product, shape
        self._few = min(few, FEW_ON_TILES) if library.has_tiles else few
        self._weight, self._scales, self._bias = weight, scales, bias
        held = (weight, scales, bias)
        self.num_bytes = sum(each.nbytes for each in held if each is not None)

    def __del__(self) -> None:
        # A thread that was preempted may still read a weight whose product is long there.
        self._library.quiet()

    def __call__(self, inputs: Tensor) -> Tensor:
        """As `Matrix`."""
        if not self._takes(inputs):
            return self._many_rows(inputs)
        result = inputs.new_empty(inputs.shape[0], self._shape[0])
        self._few_rows(result, inputs)
        return result

    def into(self, result: Tensor, inputs: Tensor) -> None:
        """As `Matrix`."""
        if self._takes(inputs):
            self._few_rows(result, inputs)
        else:
            result.copy_(self._many_rows(inputs))

    def _takes(self, inputs: Tensor) -> bool:
        """Whether there are few rows of a type that the kernels read."""
        rows, width = inputs.shape[0], self._shape[1]
        few = 1 <= rows <= self._few and rows * width <= MOST_NUMBERS
        filled = 0 <= width - inputs.shape[1] < self._filled_up_to and width > 0
        return few and filled and self._reads(inputs)

    def _reads(self, inputs: Tensor) -> bool:
        """Whether inputs, and a bias, are of one type, and kernels have it."""
        alike = self._bias is None or self._bias.dtype == inputs.dtype
        return alike and inputs.dtype in TYPES

    def _few_rows(self, result: Tensor, inputs: Tensor) -> None:
        inputs = inputs.contiguous()
        self._product(
            *map(address, (inputs, self._weight, self._scales, self._bias, result)),
            inputs.shape[0], *self._shape, inputs.shape[1], result.stride(0),
            inputs.dtype == torch.bfloat16, get_num_threads(),
        )  # fmt: skip

    @abstractmethod
    def _many_rows(self, inputs: Tensor) -> Tensor:
        """As `Matrix`, for inputs of more rows than the GEMV kernels take."""


class NativeBfloatMatrix(_NativeMatrix):
    """A `Matrix` (kernels.linear.reference) of bfloat16."""

    def __init__(self, library: Library, weight: Tensor, bias: Tensor | None) -> None:
        shape = (weight.shape[0], weight.shape[1])
        super().__init__(library, library.linear_bfloat, FEW_BFLOATS, shape, weight, None, bias)

    def _takes(self, inputs: Tensor) -> bool:
        return inputs.dtype == self._weight.dtype and super()._takes(inputs)

    def _many_rows(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self._weight, self._bias)


class NativeIntegerMatrix(_NativeMatrix):
    """A `Matrix` of 8-bit integers with a scale for each row."""

    def __init__(
        self, library: Library, values: Tensor, scales: Tensor, bias: Tensor | None, exact: bool
    ) -> None:
        """`exact`: torch multiplies integers of any size exactly, else they become floats."""
        shape, held = (values.shape[0], values.shape[1]), (values, scales.flatten())
        super().__init__(library, library.linear_int8, FEW_INTEGERS, shape, *held, bias)
        self._exact = exact and shape[1] <= _LONGEST_SUM

    def _takes(self, inputs: Tensor) -> bool:
        return self._shape[1] <= _LONGEST_SUM and super()._takes(inputs)

    def _many_rows(self, inputs: Tensor) -> Tensor:
        assert self._scales is not None
        if self._on_matrix_unit(inputs):
            return self._on_tiles(inputs.contiguous())
        if not self._exact or inputs.dtype not in TYPES:
            return DequantisedMatrix(self._weight, self._scales[:, None], self._bias)(inputs)
        result = inputs.new_empty(inputs.shape[0], self._shape[0])
        integers, row_scales = quantise_inputs(inputs)
        bias = self._bias if self._bias is None else self._bias.to(inputs.dtype)
        outputs = max(64, _SUMS // max(1, inputs.shape[0]) // 64 * 64)
        for start in range(0, self._shape[0], outputs):
            block = slice(start, start + outputs)
            sums = torch._int_mm(integers, self._weight[block].T)
            self._library.scale_sums(
                *map(address, (sums, self._scales[block], row_scales)),
                address(None if bias is None else bias[block]), address(result[:, block]),
                *sums.shape, result.stride(0), inputs.dtype == torch.bfloat16, get_num_threads(),
            )  # fmt: skip
        return result

    def _on_matrix_unit(self, inputs: Tensor) -> bool:
        short = 0 < inputs.shape[1] == self._shape[1] <= _LONGEST_OF_MANY
        return self._library.has_tiles and short and self._reads(inputs)

    def _on_tiles(self, inputs: Tensor) -> Tensor:
        result = inputs.new_empty(inputs.shape[0], self._shape[0])
        rows = MOST_NUMBERS // max(self._shape[1], _SHORTEST_OF_MANY) // _BLOCK * _BLOCK
        for start in range(0, inputs.shape[0], rows):
            some, to = inputs[start : start + rows], result[start : start + rows]
            self._library.linear_int8_many(
                *map(address, (some, self._weight, self._scales, self._bias, to)),
                some.shape[0], *self._shape, some.shape[1], to.stride(0),
                inputs.dtype == torch.bfloat16, get_num_threads(),
            )  # fmt: skip
        return result


class NativeInt4Matrix(_NativeMatrix):
    """A `Matrix` of 4-bit integers in groups."""

    _filled_up_to = GROUP

    def __init__(
        self, library: Library, values: Tensor, scales: Tensor, bias: Tensor | None
    ) -> None:
        """As `kernels.linear.int4.Int4Format` keeps them."""
        shape = (values.shape[0], 2 * values.shape[1])
        super().__init__(library, library.linear_int4, FEW_INT4, shape, values, scales, bias)

    def _many_rows(self, inputs: Tensor) -> Tensor:
        assert self._scales is not None
        inputs = in_whole_groups(inputs)
        if self._on_matrix_unit(inputs):
            return self._on_tiles(inputs)
        num_outputs, num_inputs = self._shape
        result = inputs.new_empty(inputs.shape[0], num_outputs)
        kind = torch.bfloat16 if inputs.dtype == torch.bfloat16 else torch.float32
        outputs = max(64, _FLOATS // max(1, num_inputs) // 64 * 64)
        room = torch.empty(min(outputs, num_outputs), num_inputs, dtype=kind)
        for start in range(0, num_outputs, outputs):
            block = slice(start, start + outputs)
            floats = room[: num_outputs - start]
            self._library.unpack_int4(
                *map(address, (self._weight[block], self._scales[block], floats)), *floats.shape,
                kind == torch.bfloat16, get_num_threads(),
            )  # fmt: skip
            bias = None if self._bias is None else self._bias[block].to(inputs.dtype)
            result[:, block] = F.linear(inputs, floats.to(inputs.dtype), bias)
        return result

    def _on_matrix_unit(self, inputs: Tensor) -> bool:
        right = inputs.dtype == torch.bfloat16 and inputs.shape[1] == self._shape[1] > 0
        return self._library.has_tiles and right and self._reads(inputs)

    def _on_tiles(self, inputs: Tensor) -> Tensor:
        result = inputs.new_empty(inputs.shape[0], self._shape[0])
        missing = -inputs.shape[0] % _BLOCK
        # Padding by nothing copies all the same.
        filled = (F.pad(inputs, (0, 0, 0, missing)) if missing else inputs).contiguous()
        self._library.linear_int4_many(
            *map(address, (filled, self._weight, self._scales, self._bias, result)),
            inputs.shape[0], *self._shape, self._shape[1], result.stride(0), True,
            get_num_threads(),
        )  # fmt: skip
        return result


class NativeBfloatFormat(PlainFormat):
    """Weights as published, in bfloat16."""

    def __init__(self, library: Library) -> None:
        self._library, self._arena = library, Arena()

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        """As `WeightFormat` (kernels.linear.reference)."""
        (weight,) = kept
        if weight.dtype != torch.bfloat16:
            return super().prepack(kept, bias)
        return NativeBfloatMatrix(self._library, self._arena.place(weight), bias)


class NativeInt8Format(Int8Format):
    """Weights as 8-bit integers."""

    def __init__(self, library: Library) -> None:
        super().__init__(None)
        self._library, self._arena = library, Arena()

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        """As `WeightFormat`."""
        values, scales = map(self._arena.place, kept)
        exact = multiplies_plain_integers()
        return NativeIntegerMatrix(self._library, values, scales, bias, exact)


class NativeInt4Format(Int4Format):
    """Weights as 4-bit integers in groups."""

    def __init__(self, library: Library) -> None:
        super().__init__(packed=False)
        self._library, self._arena = library, Arena()

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        """As `WeightFormat`."""
        values, scales = map(self._arena.place, kept)
        return NativeInt4Matrix(self._library, values, scales, bias)


@cache
def multiplies_plain_integers() -> bool:
    """Whether torch multiplies plain 8-bit numbers of any size, exactly, which not all oneDNN do,
    and no slower than floats. Tried out once, in some milliseconds."""
    return _is_exact() and keeps_up(_integers_times, _floats_times)


def _integers_times(rows: int) -> Tensor:
    # Torch has this product for more than 16 rows only; fewer are the compiled kernel's.
    ones = torch.ones(OUTPUTS, INPUTS, dtype=torch.int8)
    return torch._int_mm(ones[: max(rows, FEW_INTEGERS + 1)], ones.T)


def _floats_times(rows: int) -> Tensor:
    ones = torch.ones(OUTPUTS, INPUTS, dtype=torch.int8)
    return F.linear(ones[: max(rows, FEW_INTEGERS + 1)].float(), ones.float())


def _is_exact() -> bool:
    values = torch.full((64, 64), -127, dtype=torch.int8)
    values[::2] = 127
    inputs = torch.full((40, 64), 127, dtype=torch.int8)
    inputs[1, ::3] = -127
    try:
        found = torch._int_mm(inputs, values.T)
    except (AttributeError, RuntimeError):  # a build of torch, or a processor, without it
        return False
    return torch.equal(found.long(), inputs.long() @ values.long().T)
