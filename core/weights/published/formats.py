"""The published formats of quantised weights.

`values` names the large part of a layer, `names` all parts; `working_bytes` are bytes for each
weight that reading takes besides the result. `parts(layer, shape)` describes the tensors of a layer
[out, in] by the last part of their names; raises UnsupportedQuantisationError for a shape that the
format can't hold. `assemble(layer, shape, parts)` gives their weights; raises BrokenWeightsError
for impossible numbers. A format's repr is part of the fingerprint of contexts.

The 4-bit integers are packed by eight into a 32-bit word, lowest bits first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, UnsupportedQuantisationError
from core.weights.published.quantised import (
    SCALE_TYPES,
    Float8Blocks,
    Part,
    Quantised,
    checked_scales,
)

_PER_WORD = 8
# Stored numbers are 0 to 15; less 8 they fill a signed 4-bit number.
_OFFSET = 8
# Output j of eight is number _AWQ_PLACES[j] of a word: the numbers are outputs 0, 2, 4, 6, 1, 3, 5,
# 7.
_AWQ_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]


@dataclass(frozen=True, slots=True)
class Float8Format:
    """`quant_method` "fp8" with `weight_block_size`.

    `weight` is float8 e4m3 [out, in]; `weight_scale_inv` has a factor for every `block` (rows,
    columns), by which it multiplies in spite of its name. Activations are not rounded here.
    """

    block: tuple[int, int]

    title = "FP8"
    values = "weight"
    names = ("weight", "weight_scale_inv")
    working_bytes = 1

    def parts(self, layer: str, shape: tuple[int, int]) -> Mapping[str, Part]:
        blocks = tuple(-(-size // step) for size, step in zip(shape, self.block, strict=True))
        return {
            "weight": Part(("F8_E4M3",), shape),
            "weight_scale_inv": Part(SCALE_TYPES, blocks),
        }

    def assemble(
        self, layer: str, shape: tuple[int, int], parts: Mapping[str, Tensor]
    ) -> Float8Blocks:
        scales = checked_scales(layer, parts["weight_scale_inv"])
        return Float8Blocks(parts["weight"], scales, self.block)


@dataclass(frozen=True, slots=True)
class Float4Format:
    """NVFP4 and MXFP4, which `float4` reads: what names of tensors end with.

    `codes` is uint8 [out, in / 2], the first of two E2M1 numbers in the lower half of a byte;
    `scales` [out, in / group_size] is float8 e4m3 in NVFP4, and in MXFP4 an exponent of 2 plus 127.
    NVFP4 has a number for the `whole` matrix, by which compressed-tensors divides and ModelOpt
    multiplies.
    """

    group_size: int
    codes: str
    scales: str = ".weight_scale"
    whole: str = ""
    divides: bool = False
    grouped: bool = False
    """`codes` has an axis for groups."""

    @property
    def title(self) -> str:
        return "NVFP4" if self.whole else "MXFP4"

    @property
    def endings(self) -> Mapping[str, str]:
        """With the type of each tensor."""
        found = {self.codes: "U8", self.scales: "F8_E4M3" if self.whole else "U8"}
        return found | {self.whole: "F32"} if self.whole else found


@dataclass(frozen=True, slots=True)
class GptqFormat:
    """`quant_method` "gptq".

    A word of `qweight` [in / 8, out] holds neighbouring inputs, a word of `qzeros` [groups, out /
    8] neighbouring outputs; `scales` is [groups, out], and `g_idx` [in] the group of every input if
    `reordered`. Version 1 stores `zeros_less_one`. `group_size` -1 is one group over all inputs.
    """

    group_size: int
    symmetric: bool
    reordered: bool
    zeros_less_one: bool

    title = "GPTQ"
    values = "qweight"
    names = ("qweight", "qzeros", "scales", "g_idx")
    working_bytes = 3  # words, numbers in their order, numbers in ours

    def parts(self, layer: str, shape: tuple[int, int]) -> Mapping[str, Part]:
        outputs, inputs = shape
        if outputs % _PER_WORD or inputs % _PER_WORD:
            raise UnsupportedQuantisationError(
                f"{layer} has {inputs} inputs and {outputs} outputs; GPTQ packs multiples of 8."
            )
        groups = -(-inputs // _size(self.group_size, inputs))
        return {
            "qweight": Part(("I32",), (inputs // _PER_WORD, outputs)),
            "qzeros": Part(("I32",), (groups, outputs // _PER_WORD)),
            "scales": Part(SCALE_TYPES, (groups, outputs)),
            # Some writers leave it out if the groups are in order.
            "g_idx": Part(("I32",), (inputs,), optional=not self.reordered),
        }

    def assemble(
        self, layer: str, shape: tuple[int, int], parts: Mapping[str, Tensor]
    ) -> Quantised:
        """Refuses numbers that other readers of GPTQ disagree about."""
        outputs, inputs = shape
        size = _size(self.group_size, inputs)
        numbers = _unpack(parts["qweight"]).permute(1, 0, 2).reshape(outputs, inputs)
        scales = checked_scales(layer, parts["scales"].T)
        groups = None
        if "g_idx" in parts:
            groups = _checked_groups(layer, parts["g_idx"], scales.shape[1], size)
        if groups is not None and not self.reordered:
            raise BrokenWeightsError(
                f"config.json says that the inputs of {layer} are in order, its g_idx is not."
            )
        zeros = self._zeros(layer, parts["qzeros"])
        return Quantised(_signed(numbers), scales, zeros, size, groups)

    def _zeros(self, layer: str, words: Tensor) -> Tensor | None:
        stored = _unpack(words).flatten(1).T
        if self.zeros_less_one and bool((stored == 15).any()):
            # 16, or 0 by overflow, and the number above in the word may have had a carry.
            raise BrokenWeightsError(
                f"A zero point of {layer} overflowed when it was written. "
                'Choose a version of this model in the "gptq_v2" format.'
            )
        zeros = stored.to(torch.int8, copy=True) - _OFFSET + int(self.zeros_less_one)
        found = _unless_zero(zeros.contiguous())
        if self.symmetric and found is not None:
            raise BrokenWeightsError(
                f"config.json says that {layer} is symmetric, its zero points are not."
            )
        return found


@dataclass(frozen=True, slots=True)
class AwqFormat:
    """`quant_method` "awq" in the "gemm" layout.

    A word of `qweight` [in, out / 8] and of `qzeros` [groups, out / 8] holds neighbouring outputs
    in its own order; `scales` is [groups, out].
    """

    group_size: int

    title = "AWQ"
    values = "qweight"
    names = ("qweight", "qzeros", "scales")
    working_bytes = 4  # words, numbers in their order, in the word's, in ours

    def parts(self, layer: str, shape: tuple[int, int]) -> Mapping[str, Part]:
        outputs, inputs = shape
        if outputs % _PER_WORD:
            raise UnsupportedQuantisationError(
                f"{layer} has {outputs} outputs; AWQ packs multiples of 8."
            )
        words, groups = outputs // _PER_WORD, -(-inputs // _size(self.group_size, inputs))
        return {
            "qweight": Part(("I32",), (inputs, words)),
            "qzeros": Part(("I32",), (groups, words)),
            "scales": Part(SCALE_TYPES, (groups, outputs)),
        }

    def assemble(
        self, layer: str, shape: tuple[int, int], parts: Mapping[str, Tensor]
    ) -> Quantised:
        zeros = _unless_zero(_by_output(parts["qzeros"]))
        scales = checked_scales(layer, parts["scales"].T)
        size = _size(self.group_size, shape[1])
        return Quantised(_by_output(parts["qweight"]), scales, zeros, size)


@dataclass(frozen=True, slots=True)
class PackQuantizedFormat:
    """compressed-tensors "pack-quantized" with 4 bits.

    A word of `weight_packed` [out, ceil(in / 8)] holds neighbouring inputs, a word of
    `weight_zero_point` [ceil(out / 8), groups] neighbouring outputs; `weight_scale` is [out,
    groups], `weight_shape` the numbers out and in, `weight_g_idx` the group of every input if
    `reordered`.
    """

    group_size: int
    symmetric: bool
    reordered: bool

    title = "compressed-tensors"
    values = "weight_packed"
    names = (
        "weight_packed",
        "weight_scale",
        "weight_shape",
        "weight_zero_point",
        "weight_g_idx",
    )
    working_bytes = 3  # words, numbers padded to whole words, numbers

    def parts(self, layer: str, shape: tuple[int, int]) -> Mapping[str, Part]:
        outputs, inputs = shape
        groups = -(-inputs // _size(self.group_size, inputs))
        parts = {
            "weight_packed": Part(("I32",), (outputs, -(-inputs // _PER_WORD))),
            "weight_scale": Part(SCALE_TYPES, (outputs, groups)),
            "weight_shape": Part(("I64", "I32"), (2,)),
        }
        if not self.symmetric:
            parts["weight_zero_point"] = Part(("I32",), (-(-outputs // _PER_WORD), groups))
        if self.reordered:
            parts["weight_g_idx"] = Part(("I32", "I64"), (inputs,))
        return parts

    def assemble(
        self, layer: str, shape: tuple[int, int], parts: Mapping[str, Tensor]
    ) -> Quantised:
        outputs, inputs = shape
        size = _size(self.group_size, inputs)
        if parts["weight_shape"].tolist() != [outputs, inputs]:
            raise BrokenWeightsError(
                f"{layer}.weight_shape is {parts['weight_shape'].tolist()}, by config.json it "
                f"should be {[outputs, inputs]}."
            )
        numbers = _unpack(parts["weight_packed"]).flatten(1)[:, :inputs]
        scales = checked_scales(layer, parts["weight_scale"])
        zeros = groups = None
        if not self.symmetric:
            by_output = _unpack(parts["weight_zero_point"]).transpose(1, 2).flatten(0, 1)[:outputs]
            zeros = _unless_zero(_signed(by_output.clone(memory_format=torch.contiguous_format)))
        if self.reordered:
            groups = _checked_groups(layer, parts["weight_g_idx"], scales.shape[1], size)
        return Quantised(_signed(numbers.contiguous()), scales, zeros, size, groups)


Format = Float8Format | GptqFormat | AwqFormat | PackQuantizedFormat
# Names of parts that only packed layers have.
MARKS = frozenset(
    Float8Format.names
    + GptqFormat.names
    + AwqFormat.names
    + PackQuantizedFormat.names
    + ("weight_global_scale", "weight_scale_2")
) - {"weight"}


def _size(group_size: int, inputs: int) -> int:
    return inputs if group_size == -1 else group_size


def _unpack(words: Tensor) -> Tensor:
    """int32 [rows, columns] -> uint8 [rows, columns, 8]; number i is in bits 4i to 4i + 3."""
    rows, columns = words.shape
    # Little-endian, as safetensors is: byte b holds number 2b in its low half, 2b + 1 above.
    octets = words.reshape(-1).view(torch.uint8)
    pairs = torch.empty((octets.shape[0], 2), dtype=torch.uint8, device=words.device)
    torch.bitwise_and(octets, 15, out=pairs[..., 0])
    torch.bitwise_right_shift(octets, 4, out=pairs[..., 1])
    return pairs.view(rows, columns, _PER_WORD)


def _signed(numbers: Tensor) -> Tensor:
    """uint8 0 to 15 -> int8 -8 to 7, in place."""
    return numbers.view(torch.int8).sub_(_OFFSET)


def _by_output(words: Tensor) -> Tensor:
    """AWQ's int32 [rows, out / 8] -> int8 [out, rows]."""
    numbers = _unpack(words)[..., _AWQ_PLACES].flatten(1)
    return _signed(numbers.T.contiguous())


def _checked_groups(layer: str, stored: Tensor, num_groups: int, group_size: int) -> Tensor | None:
    """The group of every column, int64 [in]; None if the groups are in order."""
    groups = stored.long()
    if bool(((groups < 0) | (groups >= num_groups)).any()):
        raise BrokenWeightsError(
            f"The order of the groups of {layer} names one that is not there: "
            f"{int(groups.min())} to {int(groups.max())}, it has {num_groups}."
        )
    in_order = torch.arange(groups.shape[0], device=groups.device) // group_size
    return None if torch.equal(groups, in_order) else groups


def _unless_zero(zeros: Tensor) -> Tensor | None:
    return zeros if bool(zeros.any()) else None
