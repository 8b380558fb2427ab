"""AWQ in its "gemm" layout: `quant_method` "awq", as AutoAWQ writes it.

A word of `qweight` [in, out / 8] and of `qzeros` [groups, out / 8] holds eight neighbouring
outputs, in an order of its own; `scales` is [groups, out]. Zero points are stored as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from core.api.errors import UnsupportedQuantisationError
from core.weights.published import packed_int4
from core.weights.published.fields import Fields, group_size
from core.weights.published.format import SCALE_TYPES, Part, checked_scales, unless_zero
from core.weights.published.quantised import Quantised

# The word's numbers are outputs 0, 2, 4, 6, 1, 3, 5, 7; so output j is number _PLACE[j].
_PLACE = [0, 4, 1, 5, 2, 6, 3, 7]


@dataclass(frozen=True, slots=True)
class AwqFormat:
    """`group_size` -1 is one group over all inputs."""

    group_size: int

    title = "AWQ"
    values = "qweight"
    names = ("qweight", "qzeros", "scales")
    working_bytes = 4  # words, numbers in their order, in the word's, in ours

    def parts(self, layer: str, shape: tuple[int, int]) -> Mapping[str, Part]:
        """See Format."""
        outputs, inputs = shape
        if outputs % packed_int4.PER_WORD:
            raise UnsupportedQuantisationError(
                f"{layer} has {outputs} outputs; AWQ packs multiples of 8."
            )
        words, groups = outputs // packed_int4.PER_WORD, -(-inputs // self._size(inputs))
        return {
            "qweight": Part(("I32",), (inputs, words)),
            "qzeros": Part(("I32",), (groups, words)),
            "scales": Part(SCALE_TYPES, (groups, outputs)),
        }

    def assemble(
        self, layer: str, shape: tuple[int, int], parts: Mapping[str, Tensor]
    ) -> Quantised:
        """See Format."""
        zeros = unless_zero(_by_output(parts["qzeros"]))
        scales = checked_scales(layer, parts["scales"].T)
        return Quantised(_by_output(parts["qweight"]), scales, zeros, self._size(shape[1]))

    def _size(self, inputs: int) -> int:
        return inputs if self.group_size == -1 else self.group_size


def _by_output(words: Tensor) -> Tensor:
    """int32 [rows, out / 8] -> int8 [out, rows], -8 to 7."""
    numbers = packed_int4.unpack(words)[..., _PLACE].flatten(1)
    return packed_int4.signed(numbers.T.contiguous())


def read_awq(fields: Fields) -> AwqFormat:
    """Raises BrokenConfigError, or UnsupportedQuantisationError for other bits and layouts."""
    fields.expect((4,), "bits", "w_bit")
    fields.expect(("gemm",), "version", "format", default="gemm")
    fields.expect((True,), "zero_point", default=True)
    if fields.get("backend") == "llm-awq":  # the method's authors pack in another order
        raise fields.unknown("backend", "llm-awq")
    return AwqFormat(group_size(fields, "group_size", "q_group_size"))
