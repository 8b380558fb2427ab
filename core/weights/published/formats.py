"""The published formats of quantised weights, in one table, and FP8.

A format has a `title`, the name of its large part (`values`), the `names` of all parts that a layer
may have, and `working_bytes`: bytes for each weight that reading a layer takes besides the result.
`parts(layer, shape)` describes the tensors of a layer [out, in] by the last part of their names,
and raises UnsupportedQuantisationError for a shape that the format can't hold.
`assemble(layer, shape, parts)` gives the weights of such tensors, and raises BrokenWeightsError for
impossible numbers. A format's repr is part of the fingerprint of contexts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from core.api.errors import BrokenConfigError
from core.weights.published.fields import Fields
from core.weights.published.int4 import (
    AwqFormat,
    GptqFormat,
    PackQuantizedFormat,
    read_awq,
    read_compressed,
    read_gptq,
)
from core.weights.published.quantised import SCALE_TYPES, Float8Blocks, Part, checked_scales


@dataclass(frozen=True, slots=True)
class Float8Format:
    """`quant_method` "fp8" with `weight_block_size`, as Qwen and DeepSeek publish it.

    `weight` is float8 e4m3 [out, in], and `weight_scale_inv` has a factor for every `block` (rows,
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


def read_fp8(fields: Fields) -> Float8Format:
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


Format = Float8Format | GptqFormat | AwqFormat | PackQuantizedFormat
# By `quant_method`. Raise BrokenConfigError, UnsupportedQuantisationError.
READERS: Mapping[str, Callable[[Fields], Format]] = {
    "fp8": read_fp8,
    "gptq": read_gptq,
    "awq": read_awq,
    "compressed-tensors": read_compressed,
}
# Names of parts that only packed layers have.
MARKS = frozenset(
    Float8Format.names + GptqFormat.names + AwqFormat.names + PackQuantizedFormat.names
) - {"weight"}
