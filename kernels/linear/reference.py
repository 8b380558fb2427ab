"""Linear maps in plain torch, and the interface of weight matrices in every format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.blocks.types import GGUFType

Integers = Literal["int8", "int4"]
QuantisedTensors = tuple[Tensor, ...]
"""The tensors of a weight until it is packed; every tensor has the weight's outputs in front."""


def bytes_of(*tensors: Tensor | None) -> int:
    return sum(each.nbytes for each in tensors if each is not None)


class Matrix(Protocol):
    """A weight matrix W [outputs, inputs], with a bias or without.

    The same number of rows gives the same bits. Prompts call it, generated tokens `step`, which may
    be faster and round otherwise.
    """

    num_bytes: int

    def __call__(self, inputs: Tensor) -> Tensor:
        """`inputs` [n, inputs] -> x W^T + b [n, outputs], in the type of `inputs`."""
        ...

    def step(self, inputs: Tensor) -> Tensor:
        return self(inputs)

    def into(self, result: Tensor, inputs: Tensor, is_step: bool = False) -> None:
        """Write either product into `result`, whose rows may have gaps."""
        result.copy_(self.step(inputs) if is_step else self(inputs))

    def first(self, num_outputs: int) -> Matrix:
        """The matrix of at least the first `num_outputs` outputs, sharing memory."""
        return self


class StoredFormat(Protocol):
    """How weights are stored until they are packed.

    `is_plain`: both forms are the weight itself. Rows of equal formats may be packed as one
    matrix.
    """

    @property
    def is_plain(self) -> bool: ...

    @property
    def quantises(self) -> bool: ...

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        """`kept` is not needed any more."""
        ...

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """`dtype` is the type of a plain weight."""
        ...


class WeightFormat(StoredFormat, Protocol):
    """A format that floats are brought into: quantised tensor by tensor, then packed.

    Maps of the same inputs are packed as one matrix, after the floats of each are freed.
    """

    def quantise(self, weight: Tensor) -> QuantisedTensors:
        """The stored form of `weight` [outputs, inputs]; rows are independent."""
        ...

    def repack(
        self, values: Tensor, scales: Tensor, zeros: Tensor | None, group: int
    ) -> QuantisedTensors | None:
        """The stored form of published integers, (values - zeros) * scales; None if not
        representable.

        `values` int8 [outputs, inputs] in -8 .. 7, `scales` float32 and `zeros` int8 [outputs,
        groups] of `group` inputs.
        """
        return None


class PlainMatrix(Matrix):
    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias
        self.num_bytes = bytes_of(weight, bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self.weight, self.bias)


class PlainFormat(WeightFormat):
    is_plain = True
    quantises = False

    def quantise(self, weight: Tensor) -> QuantisedTensors:
        return (weight,)

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        (weight,) = kept
        return PlainMatrix(weight, bias)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        return torch.Size(shape).numel() * dtype.itemsize


class StackedMatrix(Matrix):
    """Matrices of the same inputs, their outputs concatenated."""

    def __init__(self, matrices: list[Matrix], widths: list[int]) -> None:
        self.matrices, self._widths = matrices, widths
        self.num_bytes = sum(matrix.num_bytes for matrix in matrices)

    def __call__(self, inputs: Tensor) -> Tensor:
        result = inputs.new_empty(inputs.shape[0], sum(self._widths))
        self.into(result, inputs)
        return result

    def step(self, inputs: Tensor) -> Tensor:
        result = inputs.new_empty(inputs.shape[0], sum(self._widths))
        self.into(result, inputs, is_step=True)
        return result

    def into(self, result: Tensor, inputs: Tensor, is_step: bool = False) -> None:
        parts = result.split(self._widths, dim=1)
        for matrix, part in zip(self.matrices, parts, strict=True):
            matrix.into(part, inputs, is_step)

    def first(self, num_outputs: int) -> Matrix:
        matrices, widths = list[Matrix](), list[int]()
        for matrix, width in zip(self.matrices, self._widths, strict=True):
            left = num_outputs - sum(widths)
            if left <= 0:
                break
            part = matrix.first(left) if left < width else matrix
            matrices.append(part)
            widths.append(width if part is matrix else left)
        return StackedMatrix(matrices, widths)


BatchInvariant = Literal["never", "steps", "always"]
"""Which products and operations give a row the same bits however many rows share a call: none, only
those of steps of bfloat16, or all."""


@dataclass(frozen=True, slots=True)
class WeightFormats:
    """The formats of a model's matrices: `usual` may be quantised, `exact` never.

    Vision towers are exact: they never see a single row. `rows_from_file`: embedding tables stay in
    their file, because a packed head can't serve as one; required with `published`, which makes
    the format of matrices that stay blocks of a file from the arguments of `BlockFormat`.
    `exact_invariant` holds exact matrices that tokens go through, if `exact` is not batch
    invariant.
    """

    usual: WeightFormat
    exact: WeightFormat
    rows_from_file: bool = False
    batch_invariant: BatchInvariant = "never"
    exact_invariant: WeightFormat | None = None
    published: Callable[[GGUFType, int, Tensor | None], StoredFormat] | None = None

    def of(self, exact: bool) -> WeightFormat:
        return self.exact if exact else self.usual


PLAIN = WeightFormats(PlainFormat(), PlainFormat())
