"""8 and 4-bit matrices and GGUF blocks on an NVIDIA GPU, and whether products are right.

Q4_K, Q6_K and Q8_0 stay blocks, their fields separated and aligned; other types are dequantised at
load. A kernel multiplies up to MAX_ROWS rows; more go through floats, some megabytes of outputs at
a time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.blocks.types import GGUFType
from kernels.linear.blocks import BlockFormat
from kernels.linear.gpu import MAX_ROWS, GroupWeight, in_words, pack_int4, pack_int8
from kernels.linear.int4 import GROUP, Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import Matrix, PlainMatrix, QuantisedTensors, WeightFormat, bytes_of

_LOG = logging.getLogger(__name__)
# Of the largest result. Weight and result are rounded to bfloat16 at most; where a layout is wrong,
# all of the result is.
_STRAY = 2.0**-6
_FLOATS = 2**24  # numbers turned into floats at a time: enough to keep a whole GPU busy


class GpuMatrix(Matrix):
    """Integers or blocks on the device, of `given[:, columns]` if there are any."""

    def __init__(
        self,
        weight: GroupWeight,
        bias: Tensor | None,
        columns: Tensor | None = None,
    ) -> None:
        self.weight, self.bias, self.columns = weight, bias, columns
        self.num_bytes = weight.num_bytes + bytes_of(bias)

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
        return GpuMatrix(pack_int8(values, scales.flatten()), bias)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        return shape[0] * (-(-shape[1] // GROUP) * GROUP + 4)


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
"""A name, a matrix of 5 outputs on the device, the same in plain torch, and their inputs."""


@cache
def multiplies_integers(device: torch.device) -> bool:
    """True if such products compile on `device` and are right; else the log says why once."""
    return are_right(
        _integer_trials(device), device, "Integers are multiplied as floats on this GPU"
    )


def are_right(trials: Iterable[Trial], device: torch.device, otherwise: str) -> bool:
    """True if each product agrees with plain torch twice, to the same bits."""
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


def _integer_trials(device: torch.device) -> Iterator[Trial]:
    """The sizes end inside a step, a group and a pair of groups."""
    pairs: dict[str, tuple[WeightFormat, WeightFormat]] = {
        "int8": (GpuInt8Format(), Int8Format(None)),
        "int4": (GpuInt4Format(), Int4Format(packed=False)),
    }
    generator = torch.Generator().manual_seed(0)
    for name, (weight_format, plain) in pairs.items():
        for num_inputs in (80, 1024):
            weight = torch.randn(5, num_inputs, generator=generator).to(device)
            kept = weight_format.quantise(weight)
            yield name, weight_format.prepack(kept, None), plain.prepack(kept, None), num_inputs


# The bytes of a block in a `GroupWeight`, and where float16 numbers are in one of a file.
_BYTES = {GGUFType.Q4_K: 148, GGUFType.Q6_K: 210, GGUFType.Q8_0: 34}
_NUMBERS = {GGUFType.Q4_K: (0, 2), GGUFType.Q6_K: (208,), GGUFType.Q8_0: (0,)}
_DEQUANTISED = 2**20  # numbers dequantised at a time


class GpuBlockFormat(BlockFormat):
    """Blocks for kernels; without `kernels` and for other types, floats of type `dtype`."""

    def __init__(
        self,
        dtype: torch.dtype,
        kernels: bool,
        type: GGUFType,
        inputs: int,
        columns: Tensor | None = None,
    ) -> None:
        super().__init__(type, inputs, columns)
        self._dtype, self._stays = dtype, kernels and type in _BYTES

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        if not self._stays:
            return PlainMatrix(self._all_floats(kept), bias)
        (rows,) = kept  # types that stay have no scales of rows
        columns = None if self.columns is None else self.columns.to(rows.device)
        return GpuMatrix(pack_blocks(self.type, rows), bias, columns)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        if not self._stays:
            return shape[0] * self.inputs * self._dtype.itemsize
        return shape[0] * self.inputs // self.type.block_values * _BYTES[self.type]

    def _all_floats(self, kept: QuantisedTensors) -> Tensor:
        rows = kept[0]
        size = rows.shape[0], self.inputs
        weight = torch.empty(size, dtype=self._dtype, device=rows.device)
        order = torch.arange(self.inputs) if self.columns is None else self.columns
        step = max(1, _DEQUANTISED // self.inputs)
        for start in range(0, rows.shape[0], step):
            strip = slice(start, start + step)
            values = self.floats(kept, strip).to(rows.device, self._dtype)
            weight[strip, order.to(rows.device)] = values
        return weight


def pack_blocks(type: GGUFType, rows: Tensor) -> GroupWeight:
    """Separate the fields of blocks, uint8 [outputs, row bytes]; no bit is lost."""
    outputs = rows.shape[0]
    blocks = rows.view(outputs, -1, type.block_bytes)
    shape = outputs, blocks.shape[1] * type.block_values

    def field(start: int, end: int, dtype: torch.dtype = torch.uint8) -> Tensor:
        return blocks[:, :, start:end].contiguous().view(dtype).flatten(1)

    if type is GGUFType.Q4_K:
        tensors = (
            in_words(field(16, 144)),
            _six_bit_scales(blocks[:, :, 4:16]),
            field(0, 4, torch.float16),
        )
    elif type is GGUFType.Q6_K:
        tensors = (
            in_words(field(0, 192)),
            field(192, 208, torch.int8),
            field(208, 210, torch.float16),
        )
    else:
        codes, scales = in_words(field(2, 34, torch.int8)), field(0, 2, torch.float16)
        return GroupWeight(type.name, shape, (codes, scales))
    return GroupWeight(type.name, shape, tensors)


def _six_bit_scales(packed: Tensor) -> Tensor:
    """12 bytes a block -> scale and minimum of each group, [outputs, groups * 2]."""
    first, second, last = packed.split(4, dim=2)
    scales = torch.cat((first & 63, last & 15 | first >> 2 & 48), dim=2)
    minima = torch.cat((second & 63, last >> 4 | second >> 2 & 48), dim=2)
    return torch.stack((scales, minima), dim=3).flatten(1)


@cache
def multiplies_blocks(device: torch.device) -> bool:
    """Like `multiplies_integers`."""
    return are_right(
        _block_trials(device), device, "GGUF blocks are dequantised on load on this GPU"
    )


def _block_trials(device: torch.device) -> Iterator[Trial]:
    generator = torch.Generator().manual_seed(0)
    for type, numbers in _NUMBERS.items():
        blocks = torch.randint(0, 256, (5, 3, 256), dtype=torch.uint8, generator=generator)
        inputs = 3 * type.block_values
        blocks = blocks[:, :, : type.block_bytes].contiguous()
        for place in numbers:
            blocks[:, :, place + 1] = 0x20  # a float16 of about a hundredth
        rows = blocks.flatten(1).to(device)
        held = GpuBlockFormat(torch.bfloat16, True, type, inputs)
        plain = BlockFormat(type, inputs)
        yield type.name, held.prepack((rows,), None), plain.prepack((rows,), None), inputs
