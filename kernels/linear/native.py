"""Matrices as they were kept, row by row, for the compiled kernels.

One copy serves both ways. A generated token reads the weight once and nothing else (GEMV). The rows
of a prompt go through blocks of it that are packed as they go (GEMM); their bits
depend on nothing but the row itself, however many share a call.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, get_num_threads
from torch.nn import functional as F

from kernels.linear.int4 import GROUP, DequantisingInt4Matrix, Int4Format
from kernels.linear.int8 import DequantisedMatrix, Int8Format
from kernels.linear.reference import Matrix, PlainFormat, QuantisedTensors
from kernels.native.arena import Arena
from kernels.native.library import MOST_NUMBERS, TYPES, Library, address

Product = Literal["pairs", "floats", "torch"]
"""How many rows of bfloat16 are multiplied: by the processor's instructions for it, where it has
any, as float32, or by torch, where bits depend on the number of rows."""
# Rows that the kernels of steps take at once.
MOST_STEPS = 8
# Products of so many 8-bit integers at most add up in 32 bits, whatever they are.
_LONGEST_SUM = 2**16

Kernel = Callable[..., None]


class _NativeMatrix(Matrix):
    """What the three have in common: two compiled products, of steps and of many rows."""

    # Rows of inputs are filled up with zeros to a multiple of this.
    _filled_up_to = 1
    # Whether many rows go through the library's product, and whether as float32.
    _compiled, _widened = True, False

    def __init__(
        self,
        library: Library,
        kernels: tuple[Kernel, Kernel],
        shape: tuple[int, int],
        weight: Tensor,
        scales: Tensor | None,
        bias: Tensor | None,
    ) -> None:
        """`shape`: outputs, and inputs with those that fill up a row."""
        self._library, self._shape = library, shape
        self._of_steps, self._of_many = kernels
        self._weight, self._scales, self._bias = weight, scales, bias
        held = (weight, scales, bias)
        self.num_bytes = sum(each.nbytes for each in held if each is not None)

    def __del__(self) -> None:
        # A thread that was preempted may still read a weight whose product is long there.
        self._library.quiet()

    def __call__(self, inputs: Tensor) -> Tensor:
        """As `Matrix`."""
        result = inputs.new_empty(inputs.shape[0], self._shape[0])
        self.into(result, inputs)
        return result

    def step(self, inputs: Tensor) -> Tensor:
        """As `Matrix`."""
        result = inputs.new_empty(inputs.shape[0], self._shape[0])
        self.into(result, inputs, is_step=True)
        return result

    def into(self, result: Tensor, inputs: Tensor, is_step: bool = False) -> None:
        """As `Matrix`."""
        few = inputs.shape[0] <= MOST_STEPS and inputs.shape[0] * self._shape[1] <= MOST_NUMBERS
        if is_step and few and self._takes(inputs):
            self._multiply(self._of_steps, result, inputs)
        elif self._compiled and self._takes(inputs):
            self._multiply(self._of_many, result, inputs)
        else:
            result.copy_(self._otherwise(inputs))

    def _takes(self, inputs: Tensor) -> bool:
        """Whether there are rows of the right width, all of one type that kernels read."""
        filled = 0 <= self._shape[1] - inputs.shape[1] < self._filled_up_to
        alike = self._bias is None or self._bias.dtype == inputs.dtype
        return filled and inputs.numel() > 0 and alike and inputs.dtype in TYPES

    def _multiply(self, kernel: Kernel, result: Tensor, inputs: Tensor) -> None:
        inputs = inputs.contiguous()
        kernel(
            *map(address, (inputs, self._weight, self._scales, self._bias, result)),
            inputs.shape[0], *self._shape, inputs.shape[1], result.stride(0),
            inputs.dtype == torch.bfloat16, get_num_threads(), self._widened,
        )  # fmt: skip

    @abstractmethod
    def _otherwise(self, inputs: Tensor) -> Tensor:
        """As `Matrix`, for inputs that the kernels don't take."""


class NativeBfloatMatrix(_NativeMatrix):
    """A `Matrix` (kernels.linear.reference) of bfloat16."""

    def __init__(
        self, library: Library, weight: Tensor, bias: Tensor | None, product: Product
    ) -> None:
        shape = (weight.shape[0], weight.shape[1])
        kernels = library.linear_bfloat, library.linear_bfloat_many
        super().__init__(library, kernels, shape, weight, None, bias)
        self._compiled, self._widened = product != "torch", product == "floats"

    def _takes(self, inputs: Tensor) -> bool:
        return inputs.dtype == self._weight.dtype and super()._takes(inputs)

    def _otherwise(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self._weight, self._bias)


class NativeIntegerMatrix(_NativeMatrix):
    """A `Matrix` of 8-bit integers with a scale for each row."""

    def __init__(
        self, library: Library, values: Tensor, scales: Tensor, bias: Tensor | None
    ) -> None:
        shape, held = (values.shape[0], values.shape[1]), (values, scales.flatten())
        kernels = library.linear_int8, library.linear_int8_many
        super().__init__(library, kernels, shape, *held, bias)

    def _takes(self, inputs: Tensor) -> bool:
        return self._shape[1] <= _LONGEST_SUM and super()._takes(inputs)

    def _otherwise(self, inputs: Tensor) -> Tensor:
        assert self._scales is not None
        return DequantisedMatrix(self._weight, self._scales[:, None], self._bias)(inputs)


class NativeInt4Matrix(_NativeMatrix):
    """A `Matrix` of 4-bit integers in groups."""

    _filled_up_to = GROUP

    def __init__(
        self, library: Library, values: Tensor, scales: Tensor, bias: Tensor | None
    ) -> None:
        """As `kernels.linear.int4.Int4Format` keeps them."""
        shape = (values.shape[0], 2 * values.shape[1])
        kernels = library.linear_int4, library.linear_int4_many
        super().__init__(library, kernels, shape, values, scales, bias)

    def _otherwise(self, inputs: Tensor) -> Tensor:
        assert self._scales is not None
        return DequantisingInt4Matrix(self._weight, self._scales, self._bias)(inputs)


class NativeBfloatFormat(PlainFormat):
    """Weights as published, in bfloat16."""

    def __init__(self, library: Library, product: Product = "pairs") -> None:
        self._library, self._arena, self._product = library, Arena(), product

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        """As `WeightFormat` (kernels.linear.reference)."""
        (weight,) = kept
        if weight.dtype != torch.bfloat16:
            return super().prepack(kept, bias)
        return NativeBfloatMatrix(self._library, self._arena.place(weight), bias, self._product)


class NativeInt8Format(Int8Format):
    """Weights as 8-bit integers."""

    def __init__(self, library: Library) -> None:
        super().__init__(None)
        self._library, self._arena = library, Arena()

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        """As `WeightFormat`."""
        values, scales = map(self._arena.place, kept)
        return NativeIntegerMatrix(self._library, values, scales, bias)


class NativeInt4Format(Int4Format):
    """Weights as 4-bit integers in groups."""

    def __init__(self, library: Library) -> None:
        super().__init__(packed=False)
        self._library, self._arena = library, Arena()

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        """As `WeightFormat`."""
        values, scales = map(self._arena.place, kept)
        return NativeInt4Matrix(self._library, values, scales, bias)
