"""8 and 4-bit matrices on an NVIDIA GPU, and whether its products can be trusted.

Up to MAX_ROWS rows use Triton's integer products, more go through floats, some megabytes of outputs
at a time. Stored weights are the same as on every other backend.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.linear.gpu import MAX_ROWS, GroupWeight, Int8Weight, pack_int4
from kernels.linear.int4 import GROUP, Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import Matrix, QuantisedTensors, WeightFormat

_LOG = logging.getLogger(__name__)
# Of the largest result. Weight and result are rounded to bfloat16 at most; where a layout is wrong,
# all of the result is.
_STRAY = 2.0**-6
_FLOATS = 2**24  # numbers turned into floats at a time: enough to keep a whole GPU busy


class GpuMatrix(Matrix):
    """A `Matrix` of integers or blocks on the device, of `given[:, columns]` if there are any."""

    def __init__(
        self,
        weight: Int8Weight | GroupWeight,
        bias: Tensor | None,
        columns: Tensor | None = None,
    ) -> None:
        self.weight, self.bias, self.columns = weight, bias, columns
        self.num_bytes = weight.num_bytes + (bias.nbytes if bias is not None else 0)

    def __call__(self, inputs: Tensor) -> Tensor:
        if inputs.shape[0] <= MAX_ROWS:
            result = self.weight.times(self._aligned(inputs))
            return result if self.bias is None else result.add_(self.bias)
        result = inputs.new_empty(inputs.shape[0], self.weight.shape[0])
        self._fill(result, inputs)
        return result

    def into(self, result: Tensor, inputs: Tensor, is_step: bool = False) -> None:
        if inputs.shape[0] <= MAX_ROWS:
            result.copy_(self(inputs))
        else:
            self._fill(result, inputs)

    def _fill(self, result: Tensor, inputs: Tensor) -> None:
        """Multiply as floats, in blocks whose size depends on the weight alone."""
        num_outputs, num_inputs = self.weight.shape
        inputs = self._aligned(inputs)
        step = max(1, _FLOATS // num_inputs)
        for start in range(0, num_outputs, step):
            block = slice(start, start + step)
            bias = None if self.bias is None else self.bias[block]
            result[:, block] = F.linear(inputs, self.weight.floats(block, inputs.dtype), bias)

    def _aligned(self, inputs: Tensor) -> Tensor:
        return self.weight.aligned(inputs if self.columns is None else inputs[:, self.columns])


class GpuInt8Format(Int8Format):
    def __init__(self) -> None:
        super().__init__(None)

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        values, scales = kept
        return GpuMatrix(Int8Weight(values.contiguous(), scales.flatten()), bias)


class GpuInt4Format(Int4Format):
    def __init__(self) -> None:
        super().__init__(packed=False)

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        halves, scales = kept
        return GpuMatrix(pack_int4(halves, scales), bias)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """Like `WeightFormat`: groups lie in pairs."""
        groups = -(-shape[1] // GROUP)
        return shape[0] * ((groups + groups % 2) * GROUP // 2 + groups * 4)


Trial = tuple[str, Matrix, Matrix, int]
"""A name, a matrix of 37 outputs on the device, the same in plain torch, and their inputs."""


@cache
def multiplies_integers(device: torch.device) -> bool:
    """True if integer products compile on `device` and are right; if not, the log says once why."""
    return are_right(_trials(device), device, "Integers are multiplied as floats on this GPU")


def are_right(trials: Iterable[Trial], device: torch.device, otherwise: str) -> bool:
    """True if each product agrees with plain torch twice, to the same bits; rows go either way."""
    try:
        wrong = next((name for name, right in _tried(trials, device) if not right), None)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong is not None:
        _LOG.warning("%s: %s", otherwise, wrong)
    return wrong is None


def _tried(trials: Iterable[Trial], device: torch.device) -> Iterator[tuple[str, bool]]:
    generator = torch.Generator().manual_seed(0)
    for name, matrix, reference, num_inputs in trials:
        for num_rows in (1, MAX_ROWS + 1):
            rows = torch.randn(num_rows, num_inputs, generator=generator)
            rows = rows.to(device, torch.bfloat16)
            found, expected = matrix(rows), reference(rows.float())
            near = (found.float() - expected).abs().max() < _STRAY * expected.abs().max()
            yield f"{name}, {num_rows} rows", bool(near) and torch.equal(found, matrix(rows))


def _trials(device: torch.device) -> Iterator[Trial]:
    """The sizes end inside a tile, a group and a pair of groups."""
    pairs: dict[str, tuple[WeightFormat, WeightFormat]] = {
        "int8": (GpuInt8Format(), Int8Format(None)),
        "int4": (GpuInt4Format(), Int4Format(packed=False)),
    }
    generator = torch.Generator().manual_seed(0)
    for name, (weight_format, plain) in pairs.items():
        for num_inputs in (80, 1024):
            weight = torch.randn(37, num_inputs, generator=generator).to(device)
            kept = weight_format.quantise(weight)
            yield name, weight_format.prepack(kept, None), plain.prepack(kept, None), num_inputs
