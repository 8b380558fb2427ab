"""Tensor types of GGUF files, and their values as float32."""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

from kernels.blocks.grid import GRID_BLOCKS
from kernels.blocks.small import K_BLOCKS, SMALL_BLOCKS


class GGUFType(Enum):
    """Its id in files, the values of a block and the bytes of a block."""

    F32 = (0, 1, 4)
    F16 = (1, 1, 2)
    Q4_0 = (2, 32, 18)
    Q4_1 = (3, 32, 20)
    Q5_0 = (6, 32, 22)
    Q5_1 = (7, 32, 24)
    Q8_0 = (8, 32, 34)
    Q2_K = (10, 256, 84)
    Q3_K = (11, 256, 110)
    Q4_K = (12, 256, 144)
    Q5_K = (13, 256, 176)
    Q6_K = (14, 256, 210)
    IQ2_XXS = (16, 256, 66)
    IQ2_XS = (17, 256, 74)
    IQ3_XXS = (18, 256, 98)
    IQ1_S = (19, 256, 50)
    IQ4_NL = (20, 32, 18)
    IQ3_S = (21, 256, 110)
    IQ2_S = (22, 256, 82)
    IQ4_XS = (23, 256, 136)
    I8 = (24, 1, 1)
    I16 = (25, 1, 2)
    I32 = (26, 1, 4)
    I64 = (27, 1, 8)
    F64 = (28, 1, 8)
    IQ1_M = (29, 256, 56)
    BF16 = (30, 1, 2)
    TQ1_0 = (34, 256, 54)
    TQ2_0 = (35, 256, 66)
    MXFP4 = (39, 32, 17)
    NVFP4 = (40, 64, 36)

    def __init__(self, id: int, block_values: int, block_bytes: int) -> None:
        self.id = id
        self.block_values = block_values
        self.block_bytes = block_bytes


TYPES = {type.id: type for type in GGUFType}
# Ids of other types, so that a refusal names them: intermediate results, newer and removed types.
OTHER_TYPES = {
    4: "Q4_2", 5: "Q4_3", 9: "Q8_1", 15: "Q8_K", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
    36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8", 41: "Q1_0", 42: "Q2_0",
}  # fmt: skip

_PLAIN = {
    GGUFType.F32: "<f4", GGUFType.F16: "<f2", GGUFType.F64: "<f8", GGUFType.I8: "i1",
    GGUFType.I16: "<i2", GGUFType.I32: "<i4", GGUFType.I64: "<i8",
}  # fmt: skip
_LAYOUTS = SMALL_BLOCKS | K_BLOCKS | GRID_BLOCKS
# Values in the processor's cache at a time: every type takes several passes.
_AT_ONCE = 2**17


def dequantise(type: GGUFType, blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """The values of whole blocks: bytes [..., n * block bytes] -> [..., n * block values].

    Bits are those of `gguf.quants.dequantize`; F64, I32 and I64, which it can't read, are
    rounded.
    """
    *outer, size = blocks.shape
    count = size // type.block_bytes
    assert count * type.block_bytes == size
    shape = (*outer, count * type.block_values)
    data = np.ascontiguousarray(blocks).reshape(-1)
    with np.errstate(all="ignore"):  # scales may be infinite or NaN
        return _values(type, data).reshape(shape)


def _values(type: GGUFType, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    if type in _PLAIN:
        return data.view(_PLAIN[type]).astype(np.float32)
    if type is GGUFType.BF16:
        return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    layout, unpack = _LAYOUTS[type.name]
    records = data.view(layout)
    values = np.empty((len(records), type.block_values), np.float32)
    step = _AT_ONCE // type.block_values
    for start in range(0, len(records), step):
        unpack(records[start : start + step], values[start : start + step])
    return values
