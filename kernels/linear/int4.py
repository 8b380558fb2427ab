"""Matrices of 4-bit integers in groups of 32 inputs, each with a scale and an offset.

    W[o, i] = (q[o, i] - 8) s[o, g] + m[o, g],  q in 0 .. 15,  g = i // 32

A few rows use torch's packed int4 product, which waits for memory alone. More go through floats, a
block at a time: for 512 rows the int4 product takes four times as long (46 against 12 ms on an
Intel Xeon with AMX).
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.common.memory import room
from kernels.linear.cpu import INPUTS, OUTPUTS, ROWS, Product, keeps_up
from kernels.linear.reference import Matrix, QuantisedTensors, WeightFormat, bytes_of

GROUP = 32
_ZERO_POINT = 8
_LEVELS = 15
# Outputs that lie together in the packed int4 values, by the width of the processor's registers.
_LANES = (64, 32)
# Up to these rows the int4 product is faster than the way through floats.
FEW_ROWS = 64
_PACKED_AT_ONCE = 256  # outputs; each number takes 4 bytes on its way
_BLOCK = 2**18  # numbers quantised at a time: their floats stay in a processor's cache
_FLOATS = 2**20  # numbers turned into floats at a time, for a GEMM


def quantise_groups(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Floats [outputs, inputs] in whole groups -> uint8 [outputs, inputs], and bfloat16 [outputs,
    groups, 2]: scale and offset.

    Numbers are rounded with the stored scale, so its rounding adds no error.
    """
    groups = weight.float().unflatten(1, (-1, GROUP))
    low, high = groups.amin(2), groups.amax(2)
    # By a tensor: by a number a GPU multiplies with its inverse, which rounds otherwise.
    scale = ((high - low) / low.new_full((), _LEVELS)).bfloat16()
    offset = (low + _ZERO_POINT * scale.float()).bfloat16()
    divisor = scale.float().masked_fill_(scale == 0, 1.0).unsqueeze(2)
    levels = (groups - offset.float().unsqueeze(2)).div_(divisor).round_().add_(_ZERO_POINT)
    values = levels.clamp_(0, _LEVELS).flatten(1).to(torch.uint8)
    return values, torch.stack((scale, offset), dim=2)


def dequantise_groups(values: Tensor, scales: Tensor) -> Tensor:
    """Result of `quantise_groups` -> float32 [outputs, inputs]."""
    groups = values.float().unflatten(1, (-1, GROUP)) - _ZERO_POINT
    scale, offset = scales.float().unsqueeze(2).unbind(3)
    floats: Tensor = groups * scale + offset
    return floats.flatten(1)


class PackedInt4Matrix(Matrix):
    """Torch's packed layout, for bfloat16; needs `multiplies_int4`."""

    def __init__(self, values: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        found = lanes()
        assert found is not None, "torch's int4 layout is not known here"
        self._lanes = found
        self._outputs = values.shape[0]
        missing = -self._outputs % _LANES[0]
        values, scales = _with_rows(values, missing), _with_rows(scales, missing)
        self._packed = torch.empty_like(values)
        for start in range(0, values.shape[0], _PACKED_AT_ONCE):
            block = slice(start, start + _PACKED_AT_ONCE)
            self._packed[block] = _pack(values[block])
        self._scales = scales.transpose(0, 1).contiguous()  # [groups, outputs, 2]
        self._bias = bias
        self.num_bytes = bytes_of(self._packed, self._scales, bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        given = in_whole_groups(inputs)
        few = inputs.shape[0] <= FEW_ROWS
        outputs = self._multiply_int4(given) if few else self._multiply_floats(given)
        outputs = outputs[:, : self._outputs]
        return outputs if self._bias is None else outputs + self._bias

    def _multiply_int4(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(
            inputs.contiguous(), self._packed, GROUP, self._scales
        )
        return outputs

    def _multiply_floats(self, inputs: Tensor) -> Tensor:
        num_inputs = inputs.shape[1]
        outputs = max(_LANES[0], _FLOATS // num_inputs // _LANES[0] * _LANES[0])
        products = []
        for start in range(0, self._packed.shape[0], outputs):
            block = slice(start, start + outputs)
            floats = _unpack(self._packed[block], self._scales[:, block], self._lanes)
            products.append(inputs @ floats)
        return products[0] if len(products) == 1 else torch.cat(products, dim=1)


class DequantisingInt4Matrix(Matrix):
    """For any type and processor."""

    def __init__(self, values: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        self._halves, self._scales, self._bias = values, scales, bias
        self.num_bytes = bytes_of(values, scales, bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        given = in_whole_groups(inputs)
        rows = max(1, _FLOATS // given.shape[1])
        blocks = zip(torch.split(self._halves, rows), torch.split(self._scales, rows), strict=True)
        products = [
            F.linear(given, dequantise_groups(unhalve(halves), scales).to(inputs.dtype))
            for halves, scales in blocks
        ]
        outputs = torch.cat(products, dim=1)
        return outputs if self._bias is None else outputs + self._bias


class Int4Format(WeightFormat):
    """4-bit weights, in torch's layout for products if `packed`."""

    is_plain = False
    quantises = True

    def __init__(self, packed: bool) -> None:
        self._packed = packed

    def quantise(self, weight: Tensor) -> QuantisedTensors:
        halves, scales = self.allot(weight)
        rows = max(1, _BLOCK // max(1, weight.shape[1]))
        for start in range(0, weight.shape[0], rows):
            block = slice(start, start + rows)
            values, scales[block] = quantise_groups(in_whole_groups(weight[block]))
            halves[block] = halve(values)
        return halves, scales

    @staticmethod
    def allot(weight: Tensor) -> QuantisedTensors:
        outputs, groups = weight.shape[0], -(-weight.shape[1] // GROUP)
        halves = room((outputs, groups * GROUP // 2), torch.uint8, weight.device)
        return halves, room((outputs, groups, 2), torch.bfloat16, weight.device)

    def repack(
        self, values: Tensor, scales: Tensor, zeros: Tensor | None, group: int
    ) -> QuantisedTensors | None:
        """The same integers, with scales in bfloat16; None if groups can't be divided."""
        if group % GROUP or values.shape[1] % GROUP:
            return None
        offsets = torch.zeros_like(scales) if zeros is None else zeros.float() * -scales
        pairs = torch.stack((scales, offsets), dim=2).bfloat16()
        pairs = pairs.repeat_interleave(group // GROUP, dim=1)[:, : values.shape[1] // GROUP]
        return halve((values + _ZERO_POINT).to(torch.uint8)), pairs.contiguous()

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        values, scales = kept
        if self._packed:
            return PackedInt4Matrix(values, scales, bias)
        return DequantisingInt4Matrix(values, scales, bias)

    def num_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        missing = -shape[0] % _LANES[0] if self._packed else 0
        outputs, groups = shape[0] + missing, -(-shape[1] // GROUP)
        return outputs * groups * (GROUP // 2 + 4)


def halve(values: Tensor) -> Tensor:
    """Pack [outputs, inputs] into [outputs, inputs / 2], odd values in the upper half."""
    return values[:, 0::2] | (values[:, 1::2] << 4)


def unhalve(halves: Tensor) -> Tensor:
    return torch.stack((halves & 15, halves >> 4), dim=2).flatten(1)


def multiplies_int4() -> bool:
    """True if torch's int4 layout is known here and its product is no slower than floats."""
    return lanes() is not None and _is_fast()


@cache
def _is_fast() -> bool:
    return keeps_up(*_integer_and_float_product())


def _integer_and_float_product() -> tuple[Product, Product]:
    values, scales = Int4Format(packed=True).quantise(torch.ones(OUTPUTS, INPUTS))
    inputs = torch.ones(max(ROWS), INPUTS, dtype=torch.bfloat16)
    matrices = (
        PackedInt4Matrix(values, scales, None),
        DequantisingInt4Matrix(values, scales, None),
    )
    integers, floats = ((lambda rows, of=each: of(inputs[:rows])) for each in matrices)
    return integers, floats


@cache
def lanes() -> int | None:
    """Outputs interleaved in torch's int4 layout; None if unknown."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(0, 16, (_LANES[0] * 2, 2 * GROUP), generator=generator)
    values = values.to(torch.uint8)
    scales = torch.ones(2, values.shape[0], 2, dtype=torch.bfloat16)
    scales[..., 1] = 0
    try:
        packed = _pack(halve(values))
    except (AttributeError, RuntimeError):  # a build of torch without it
        return None
    expected = values.T.bfloat16() - _ZERO_POINT
    for count in _LANES:
        if torch.equal(_unpack(packed, scales, count), expected):
            return count
    return None


def _pack(halves: Tensor) -> Tensor:
    packed: Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(
        unhalve(halves).to(torch.int32), 1
    )
    return packed


def _unpack(packed: Tensor, scales: Tensor, count: int) -> Tensor:
    """Packed int4 values and scales [groups, outputs, 2] -> bfloat16 [inputs, outputs].

    Of `count` interleaved outputs the first half is in the lower halves of bytes.
    """
    groups, outputs, _ = scales.shape
    num_inputs, half = groups * GROUP, count // 2
    octets = packed.reshape(outputs // count, num_inputs, half).transpose(0, 1)
    floats = torch.empty(num_inputs, outputs // count, 2, half, dtype=torch.bfloat16)
    # Taken off while numbers are bytes, a quarter of the work in bfloat16; exact in both.
    floats[:, :, 0] = (octets & 15).view(torch.int8) - _ZERO_POINT
    floats[:, :, 1] = (octets >> 4).view(torch.int8) - _ZERO_POINT
    grouped = floats.view(groups, GROUP, outputs)
    # Side by side, or every other number would be skipped for each of GROUP inputs: 5 times slower.
    scale, offset = scales.permute(2, 0, 1).contiguous().unsqueeze(2)
    # q - 8 is exact in bfloat16, so a weight is rounded once.
    torch.addcmul(offset, grouped, scale, out=grouped)
    return grouped.view(num_inputs, outputs)


def in_whole_groups(rows: Tensor) -> Tensor:
    """[n, inputs] padded with zeros to a multiple of GROUP inputs."""
    missing = -rows.shape[1] % GROUP
    return F.pad(rows, (0, missing)) if missing else rows


def _with_rows(tensor: Tensor, missing: int) -> Tensor:
    if missing == 0:
        return tensor
    return torch.cat((tensor, tensor.new_zeros(missing, *tensor.shape[1:])))
