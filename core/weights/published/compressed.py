"""compressed-tensors, "pack-quantized" with 4 bits, as llm-compressor writes it.

A word of `weight_packed` [out, ceil(in / 8)] holds eight neighbouring inputs, a word of
`weight_zero_point` [ceil(out / 8), groups] eight neighbouring outputs, each less -8; `weight_scale`
is [out, groups], `weight_shape` [out, in] in numbers. With `actorder` "group", `weight_g_idx` names
the group of every input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from core.api.errors import BrokenConfigError, BrokenWeightsError
from core.weights.published import packed_int4
from core.weights.published.fields import Fields, group_size
from core.weights.published.format import (
    SCALE_TYPES,
    Part,
    checked_groups,
    checked_scales,
    unless_zero,
)
from core.weights.published.quantised import Quantised

# "weight" and its older name sort only while quantising: what is stored is in order.
_IN_ORDER = (None, False, "weight", "static")
_REORDERED = (True, "group", "dynamic")


@dataclass(frozen=True, slots=True)
class PackQuantizedFormat:
    """`group_size` -1 is one group over all inputs; `reordered` lets the groups mix."""

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
        """See Format."""
        outputs, inputs = shape
        groups = -(-inputs // self._size(inputs))
        parts = {
            "weight_packed": Part(("I32",), (outputs, -(-inputs // packed_int4.PER_WORD))),
            "weight_scale": Part(SCALE_TYPES, (outputs, groups)),
            "weight_shape": Part(("I64", "I32"), (2,)),
        }
        if not self.symmetric:
            words = -(-outputs // packed_int4.PER_WORD)
            parts["weight_zero_point"] = Part(("I32",), (words, groups))
        if self.reordered:
            parts["weight_g_idx"] = Part(("I32", "I64"), (inputs,))
        return parts

    def assemble(
        self, layer: str, shape: tuple[int, int], parts: Mapping[str, Tensor]
    ) -> Quantised:
        """See Format."""
        outputs, inputs = shape
        size = self._size(inputs)
        if parts["weight_shape"].tolist() != [outputs, inputs]:
            raise BrokenWeightsError(
                f"{layer}.weight_shape is {parts['weight_shape'].tolist()}, by config.json it "
                f"should be {[outputs, inputs]}."
            )
        numbers = packed_int4.unpack(parts["weight_packed"]).flatten(1)[:, :inputs]
        scales = checked_scales(layer, parts["weight_scale"])
        zeros = groups = None
        if not self.symmetric:
            zeros = unless_zero(_zeros(parts["weight_zero_point"], outputs))
        if self.reordered:
            groups = checked_groups(layer, parts["weight_g_idx"], scales.shape[1], size)
        return Quantised(packed_int4.signed(numbers.contiguous()), scales, zeros, size, groups)

    def _size(self, inputs: int) -> int:
        return inputs if self.group_size == -1 else self.group_size


def _zeros(words: Tensor, outputs: int) -> Tensor:
    """int32 [ceil(out / 8), groups] -> int8 [out, groups]."""
    by_output = packed_int4.unpack(words).transpose(1, 2).flatten(0, 1)[:outputs]
    return packed_int4.signed(by_output.clone(memory_format=torch.contiguous_format))


def read_compressed(fields: Fields) -> PackQuantizedFormat:
    """Raises BrokenConfigError, or UnsupportedQuantisationError for all but 4-bit integers.

    Layers may be listed in several groups if all of them are stored alike.
    """
    fields.expect(("pack-quantized",), "format")
    # A sparse file is another format, and a rotation would have to be undone in every forward.
    fields.section("sparsity_config").expect(("dense",), "format", default="dense")
    if fields.section("transform_config").get("config_groups"):
        raise fields.unknown("transform_config", "rotations")
    found = {_read_group(group) for _, group in fields.section("config_groups").sections()}
    if not found:
        raise BrokenConfigError(f'"{fields.path}.config_groups" in config.json is empty.')
    if len(found) > 1:
        raise fields.unknown("config_groups", "several that differ")
    return found.pop()


def _read_group(group: Fields) -> PackQuantizedFormat:
    group.expect(("pack-quantized",), "format", default="pack-quantized")
    weights = group.section("weights")
    weights.expect((4,), "num_bits")
    weights.expect(("int",), "type", default="int")
    weights.expect((False,), "dynamic", default=False)
    order = weights.get("actorder")
    order = order.lower() if isinstance(order, str) else order
    if order not in _IN_ORDER and order not in _REORDERED:
        raise weights.unknown("actorder", order)
    weights.expect(("group", "channel"), "strategy", default="group")
    by_channel = weights.word("strategy", default="group") == "channel"
    return PackQuantizedFormat(
        group_size=-1 if by_channel else group_size(weights, "group_size"),
        symmetric=weights.flag("symmetric", default=True),
        reordered=order in _REORDERED and not by_channel,
    )
