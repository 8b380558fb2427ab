"""FP8 by blocks, as Qwen and DeepSeek publish it: `quant_method` "fp8" with `weight_block_size`.

`weight` is float8 e4m3 [out, in], and `weight_scale_inv` has a factor for every block; despite its
name it multiplies. Activations stay as they are here, so how they would be rounded doesn't matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from core.api.errors import BrokenConfigError
from core.weights.published.fields import Fields
from core.weights.published.format import SCALE_TYPES, Part, checked_scales
from core.weights.published.quantised import Float8Blocks


@dataclass(frozen=True, slots=True)
class Float8Format:
    """`block` is (rows, columns) that share a scale."""

    block: tuple[int, int]

    title = "FP8"
    values = "weight"
    names = ("weight", "weight_scale_inv")
    working_bytes = 1

    def parts(self, layer: str, shape: tuple[int, int]) -> Mapping[str, Part]:
        """See Format."""
        blocks = tuple(-(-size // step) for size, step in zip(shape, self.block, strict=True))
        return {
            "weight": Part(("F8_E4M3",), shape),
            "weight_scale_inv": Part(SCALE_TYPES, blocks),
        }

    def assemble(
        self, layer: str, shape: tuple[int, int], parts: Mapping[str, Tensor]
    ) -> Float8Blocks:
        """See Format."""
        scales = checked_scales(layer, parts["weight_scale_inv"])
        return Float8Blocks(parts["weight"], scales, self.block)


def read_fp8(fields: Fields) -> Float8Format:
    """Raises BrokenConfigError, or UnsupportedQuantisationError for scales by tensor or by row."""
    fields.expect(("e4m3",), "fmt", default="e4m3")
    fields.expect(("float",), "scale_fmt", default="float")
    fields.expect(("dynamic", "static"), "activation_scheme", default="dynamic")
    block = fields.get("weight_block_size")
    if block is None:
        raise fields.unknown("weight_block_size", None)
    if not isinstance(block, list) or len(block) != 2 or not all(map(_is_size, block)):
        raise BrokenConfigError(f'"{fields.path}.weight_block_size" in config.json is no block.')
    return Float8Format((block[0], block[1]))


def _is_size(value: object) -> bool:
    return type(value) is int and 1 <= value < 2**31
