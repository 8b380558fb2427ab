"""Matrices of the compiled kernels, as stored.

A token reads the weight once (GEMV); for a prompt blocks are packed on the way (GEMM).
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Literal

import torch
from torch import Tensor, get_num_threads
from torch.nn import functional as F

from kernels.common.memory import Arena, room
from kernels.linear.int4 import GROUP, DequantisingInt4Matrix, Int4Format
from kernels.linear.int8 import DequantisedMatrix, Int8Format
from kernels.linear.reference import Matrix, PlainFormat, QuantisedTensors, bytes_of
from kernels.native.library import MOST_NUMBERS, TYPES, Kernel, Library, address, is_bfloat

Product = Literal["pairs", "floats", "torch"]
"""How many rows of bfloat16 are multiplied: by the processor's instructions for it, where it has
any, as float32, or by torch, where bits depend on the number of rows."""
# Rows that the kernels of steps take at once.
MOST_STEPS = 8
# Products of so many 8-bit integers at most add up in 32 bits, whatever they are.
_LONGEST_SUM = 2**16


class NativeMatrix(Matrix):
    """`kernel` ends the names of products; `compiled`: many rows use the library, too, `widened` as
    float32."""

    # Rows of inputs are filled up with zeros to a multiple of this.
    _filled_up_to = 1
    # Outputs of each row of `weight`.
    _outputs_of_row = 1
    compiled, widened = True, False
    # True if the weight is in a mapped file, from which its pages are read when they are needed.
    mapped = False
    # Those of GGUF blocks: the id of their type, and the order of inputs if it isn't that of rows.
    format = 0
    places: Tensor | None = None

    def __init__(
        self,
        library: Library,
        kernel: str,
        shape: tuple[int, int],
        weight: Tensor,
        scales: Tensor | None,
        bias: Tensor | None,
    ) -> None:
        """`shape`: outputs, and inputs including padding."""
        self._library, self.kernel, self.shape = library, kernel, shape
        self._of_steps: Kernel = getattr(library, f"linear_{kernel}")
        self._of_many: Kernel = getattr(library, f"linear_{kernel}_many")
        self.weight, self.scales, self.bias = weight, scales, bias
        self.num_bytes = bytes_of(weight, scales, bias)

    def __del__(self) -> None:
        # A thread that was preempted may still read a weight whose product is long there.
        self._library.wait_idle()

    def __call__(self, inputs: Tensor) -> Tensor:
        result = inputs.new_empty(inputs.shape[0], self.shape[0])
        self.into(result, inputs)
        return result

    def step(self, inputs: Tensor) -> Tensor:
        result = inputs.new_empty(inputs.shape[0], self.shape[0])
        self.into(result, inputs, is_step=True)
        return result

    def into(self, result: Tensor, inputs: Tensor, is_step: bool = False) -> None:
        few = inputs.shape[0] <= MOST_STEPS and inputs.shape[0] * self.shape[1] <= MOST_NUMBERS
        if is_step and few and self._takes(inputs):
            self._multiply(self._of_steps, result, inputs)
        elif self.compiled and self._takes(inputs):
            self._multiply(self._of_many, result, inputs)
        else:
            result.copy_(self._otherwise(inputs))

    def first(self, num_outputs: int) -> Matrix:
        """Weights are stored output by output, or some outputs by some."""
        found = copy(self)
        found.shape = min(num_outputs, self.shape[0]), self.shape[1]
        found.weight = self.weight[: -(-num_outputs // self._outputs_of_row)]
        found.scales = None if self.scales is None else self.scales[:num_outputs]
        found.bias = None if self.bias is None else self.bias[:num_outputs]
        return found

    def _takes(self, inputs: Tensor) -> bool:
        """True if the kernels read rows of this width and type."""
        filled = 0 <= self.shape[1] - inputs.shape[1] < self._filled_up_to
        alike = self.bias is None or self.bias.dtype == inputs.dtype
        return filled and inputs.numel() > 0 and alike and inputs.dtype in TYPES

    def _multiply(self, kernel: Kernel, result: Tensor, inputs: Tensor) -> None:
        inputs = inputs.contiguous()
        kernel(
            *map(address, (inputs, self.weight, self.scales, self.bias, result)),
            inputs.shape[0], *self.shape, inputs.shape[1], result.stride(0),
            is_bfloat(inputs), get_num_threads(), self.widened, self.format, address(self.places),
        )  # fmt: skip

    @abstractmethod
    def _otherwise(self, inputs: Tensor) -> Tensor:
        """For inputs that the kernels don't take."""


class NativeBfloatMatrix(NativeMatrix):
    def __init__(
        self, library: Library, weight: Tensor, bias: Tensor | None, product: Product
    ) -> None:
        shape = (weight.shape[0], weight.shape[1])
        super().__init__(library, "bfloat", shape, weight, None, bias)
        self.compiled, self.widened = product != "torch", product == "floats"

    def _takes(self, inputs: Tensor) -> bool:
        return inputs.dtype == self.weight.dtype and super()._takes(inputs)

    def _otherwise(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self.weight, self.bias)


class NativeIntegerMatrix(NativeMatrix):
    def _takes(self, inputs: Tensor) -> bool:
        return self.shape[1] <= _LONGEST_SUM and super()._takes(inputs)

    def _otherwise(self, inputs: Tensor) -> Tensor:
        assert self.scales is not None
        return DequantisedMatrix(self.weight, self.scales[:, None], self.bias)(inputs)


class NativeInt4Matrix(NativeMatrix):
    _filled_up_to = GROUP

    def _otherwise(self, inputs: Tensor) -> Tensor:
        assert self.scales is not None
        return DequantisingInt4Matrix(self.weight, self.scales, self.bias)(inputs)


class NativeBfloatFormat(PlainFormat):
    def __init__(self, library: Library, product: Product = "pairs") -> None:
        self._library, self._arena, self._product = library, Arena(), product

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        (weight,) = kept
        if weight.dtype != torch.bfloat16:
            return super().prepack(kept, bias)
        return NativeBfloatMatrix(self._library, self._arena.place(weight), bias, self._product)


class NativeInt8Format(Int8Format):
    def __init__(self, library: Library) -> None:
        super().__init__(None)
        self._library, self._arena = library, Arena()

    def quantise(self, weight: Tensor) -> QuantisedTensors:
        if not _readable(weight):
            return super().quantise(weight)
        values = room(weight.shape, torch.int8, weight.device)
        scales = torch.empty(weight.shape[0], 1)
        _quantise(self._library.quantise_int8, weight, values, scales)
        return values, scales

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        values, scales = map(self._arena.place, kept)
        shape, held = (values.shape[0], values.shape[1]), (values, scales.flatten())
        return NativeIntegerMatrix(self._library, "int8", shape, *held, bias)


class NativeInt4Format(Int4Format):
    def __init__(self, library: Library) -> None:
        super().__init__(packed=False)
        self._library, self._arena = library, Arena()

    def quantise(self, weight: Tensor) -> QuantisedTensors:
        if not _readable(weight):
            return super().quantise(weight)
        halves, scales = self.allot(weight)
        _quantise(self._library.quantise_int4, weight, halves, scales)
        return halves, scales

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        values, scales = map(self._arena.place, kept)
        shape = values.shape[0], 2 * values.shape[1]
        return NativeInt4Matrix(self._library, "int4", shape, values, scales, bias)


def _readable(weight: Tensor) -> bool:
    return weight.is_contiguous() and weight.dtype in TYPES and weight.device.type == "cpu"


def _quantise(kernel: Kernel, weight: Tensor, values: Tensor, scales: Tensor) -> None:
    members = map(address, (weight, values, scales))
    kernel(*members, *weight.shape, is_bfloat(weight), get_num_threads())
