"""GPTQ with 4 bits: `quant_method` "gptq", as AutoGPTQ and GPTQModel write it.

A word of `qweight` [in / 8, out] holds eight neighbouring inputs of one output, a word of `qzeros`
[groups, out / 8] the zero points of eight neighbouring outputs; `scales` is [groups, out], and
`g_idx` [in] names the group of every input. The first version of the format stores zero points less
one, "gptq_v2" as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, UnsupportedQuantisationError
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


@dataclass(frozen=True, slots=True)
class GptqFormat:
    """`group_size` -1 is one group over all inputs; `reordered` lets `g_idx` mix the groups."""

    group_size: int
    symmetric: bool
    reordered: bool
    zeros_less_one: bool

    title = "GPTQ"
    values = "qweight"
    names = ("qweight", "qzeros", "scales", "g_idx")
    working_bytes = 3  # words, numbers in their order, numbers in ours

    def parts(self, layer: str, shape: tuple[int, int]) -> Mapping[str, Part]:
        """See Format."""
        outputs, inputs = shape
        per_word = packed_int4.PER_WORD
        if outputs % per_word or inputs % per_word:
            raise UnsupportedQuantisationError(
                f"{layer} has {inputs} inputs and {outputs} outputs; GPTQ packs multiples of 8."
            )
        groups = -(-inputs // self._size(inputs))
        return {
            "qweight": Part(("I32",), (inputs // per_word, outputs)),
            "qzeros": Part(("I32",), (groups, outputs // per_word)),
            "scales": Part(SCALE_TYPES, (groups, outputs)),
            # Where the groups are in order, some writers leave it out.
            "g_idx": Part(("I32",), (inputs,), optional=not self.reordered),
        }

    def assemble(
        self, layer: str, shape: tuple[int, int], parts: Mapping[str, Tensor]
    ) -> Quantised:
        """See Format. The numbers are refused where other readers of GPTQ disagree about them."""
        outputs, inputs = shape
        size = self._size(inputs)
        numbers = packed_int4.unpack(parts["qweight"]).permute(1, 0, 2).reshape(outputs, inputs)
        scales = checked_scales(layer, parts["scales"].T)
        groups = None
        if "g_idx" in parts:
            groups = checked_groups(layer, parts["g_idx"], scales.shape[1], size)
        if groups is not None and not self.reordered:
            raise BrokenWeightsError(
                f"config.json says that the inputs of {layer} are in order, its g_idx is not."
            )
        zeros = self._zeros(layer, parts["qzeros"])
        return Quantised(packed_int4.signed(numbers), scales, zeros, size, groups)

    def _zeros(self, layer: str, words: Tensor) -> Tensor | None:
        """Zero points as `Quantised` has them: int8 [out, groups], taken off 8 like the values."""
        stored = packed_int4.unpack(words).flatten(1).T
        if self.zeros_less_one and bool((stored == 15).any()):
            # 16, or 0 by overflow, and the number above in the word may have had a carry.
            raise BrokenWeightsError(
                f"A zero point of {layer} overflowed when it was written. "
                'Choose a version of this model in the "gptq_v2" format.'
            )
        zeros = stored.to(torch.int8, copy=True) - packed_int4.OFFSET + int(self.zeros_less_one)
        found = unless_zero(zeros.contiguous())
        if self.symmetric and found is not None:
            raise BrokenWeightsError(
                f"config.json says that {layer} is symmetric, its zero points are not."
            )
        return found

    def _size(self, inputs: int) -> int:
        return inputs if self.group_size == -1 else self.group_size


def read_gptq(fields: Fields) -> GptqFormat:
    """Raises BrokenConfigError, or UnsupportedQuantisationError for other bits and packings."""
    fields.expect((4,), "bits")
    fields.expect(("int32",), "pack_dtype", default="int32")
    version = fields.word("checkpoint_format", "format", default="gptq")
    if version not in ("gptq", "gptq_v2"):
        raise fields.unknown("checkpoint_format", version)
    size, symmetric = group_size(fields, "group_size"), fields.flag("sym", default=True)
    reordered = fields.flag("desc_act", default=False)
    for pattern, overrides in fields.section("dynamic").sections():
        if not pattern.startswith("-:"):
            overrides.expect((4,), "bits", default=4)
            overrides.expect((size,), "group_size", default=size)
            overrides.expect((symmetric,), "sym", default=symmetric)
            overrides.expect((reordered,), "desc_act", default=reordered)
    return GptqFormat(size, symmetric, reordered, version == "gptq")
