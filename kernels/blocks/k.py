"""Blocks of 256 values with small integer scales for each 16 or 32 of them: Q2_K to Q6_K, IQ4_XS.

A block's float16 scale times a group's integer scale is rounded to float32 before it meets a code,
as in ggml's reference.
"""

from __future__ import annotations

import numpy as np

from kernels.blocks.small import (
    NONLINEAR,
    Codes,
    Floats,
    Layout,
    Records,
    nibbles,
    pairs,
    record,
    scale,
)

_BITS = np.arange(8, dtype=np.uint8)[:, None]
_PAIRS = np.array([0, 2, 4, 6], np.uint8)[:, None]


def _scaled(values: Floats, scales: Floats, minima: Floats | None = None) -> None:
    """Multiply each group by its scale and subtract its minimum, [blocks, groups]."""
    groups = values.reshape(*scales.shape, -1)
    groups *= scales[:, :, None]
    if minima is not None:
        groups -= minima[:, :, None]


def _q2_k(blocks: Records, values: Floats) -> None:
    values[:] = pairs(blocks["q"])
    scales, minima = blocks["scales"] & 15, blocks["scales"] >> 4
    _scaled(values, scale(blocks["d"]) * scales, scale(blocks["m"]) * minima)


def _q3_k(blocks: Records, values: Floats) -> None:
    packed = blocks["scales"]
    low = nibbles(packed[:, :8], 8)
    high = (packed[:, None, 8:] >> _PAIRS & 3).reshape(-1, 16)
    scales = (low | high << 4).view(np.int8) - np.int8(32)
    codes = pairs(blocks["q"])
    codes |= (blocks["high"][:, None] >> _BITS & 1).reshape(-1, 256) << 2
    values[:] = codes
    values -= 4
    _scaled(values, scale(blocks["d"]) * scales)


def _six_bit_scales(packed: Codes) -> tuple[Codes, Codes]:
    """12 bytes [blocks, 12] -> eight scales and eight minima of six bits.

    The first four of each have a byte; the others have nibbles of the last four bytes and the two
    free bits of those bytes.
    """
    first, second, last = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate((first & 63, last & 15 | first >> 2 & 48), axis=1)
    minima = np.concatenate((second & 63, last >> 4 | second >> 2 & 48), axis=1)
    return scales, minima


def _q4_k(blocks: Records, values: Floats) -> None:
    values[:] = nibbles(blocks["q"], 32)
    scales, minima = _six_bit_scales(blocks["scales"])
    _scaled(values, scale(blocks["d"]) * scales, scale(blocks["m"]) * minima)


def _q5_k(blocks: Records, values: Floats) -> None:
    codes = nibbles(blocks["q"], 32).reshape(-1, 8, 32)
    codes |= (blocks["high"][:, None] >> _BITS & 1) << 4
    values[:] = codes.reshape(-1, 256)
    scales, minima = _six_bit_scales(blocks["scales"])
    _scaled(values, scale(blocks["d"]) * scales, scale(blocks["m"]) * minima)


def _q6_k(blocks: Records, values: Floats) -> None:
    codes = nibbles(blocks["low"], 64)
    codes |= pairs(blocks["high"]) << 4
    values[:] = codes
    values -= 32
    _scaled(values, scale(blocks["d"]) * blocks["scales"])


def _iq4_xs(blocks: Records, values: Floats) -> None:
    np.take(NONLINEAR, nibbles(blocks["q"]), out=values, mode="clip")
    low = np.stack((blocks["low"] & 15, blocks["low"] >> 4), axis=2).reshape(-1, 8)
    high = blocks["high"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    scales = (low | high.astype(np.uint8) << 4).view(np.int8) - np.int8(32)
    _scaled(values, scale(blocks["d"]) * scales)


K_BLOCKS: dict[str, Layout] = {
    "Q2_K": (record(("scales", "u1", 16), ("q", "u1", 64), ("d", "<f2"), ("m", "<f2")), _q2_k),
    "Q3_K": (
        record(("high", "u1", 32), ("q", "u1", 64), ("scales", "u1", 12), ("d", "<f2")), _q3_k),
    "Q4_K": (record(("d", "<f2"), ("m", "<f2"), ("scales", "u1", 12), ("q", "u1", 128)), _q4_k),
    "Q5_K": (
        record(("d", "<f2"), ("m", "<f2"), ("scales", "u1", 12), ("high", "u1", 32),
               ("q", "u1", 128)), _q5_k),
    "Q6_K": (
        record(("low", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("d", "<f2")), _q6_k),
    "IQ4_XS": (record(("d", "<f2"), ("high", "<u2"), ("low", "u1", 4), ("q", "u1", 128)), _iq4_xs),
}  # fmt: skip
