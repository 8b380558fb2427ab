"""Blocks of small integers times scales: of 32 or 64 values, ternary, and the K types of 256.

An unpacker fills [blocks, values] with the operations and order of ggml's reference
(ggml-common.h), so each value has the same bits. A group of 32 is 16 bytes, the first half in the
low nibbles. In K types a block's float16 scale times a group's integer scale is rounded to float32
first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]
Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]
Unpack = Callable[[Records, Floats], None]
Layout = tuple[np.dtype[np.void], Unpack]

_FOUR_BITS = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
NONLINEAR = np.array(_FOUR_BITS, np.float32)
# Twice the values of E2M1; the scales are halved.
_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)
_POWERS_OF_3 = np.array([1, 3, 9, 27, 81], np.uint8)


def record(*fields: tuple[str, str] | tuple[str, str, int]) -> np.dtype[Any]:
    return np.dtype([field if len(field) == 2 else (*field[:2], (field[2],)) for field in fields])


def scale(halves: npt.NDArray[Any]) -> Floats:
    """Scales [blocks] as float32 [blocks, 1]."""
    return halves.astype(np.float32)[:, None]


def nibbles(packed: Codes, group: int = 16) -> Codes:
    """Bytes [blocks, n] -> codes [blocks, 2 n]: of each `group` the low nibbles, then the high."""
    grouped = packed.reshape(len(packed), -1, group)
    codes = np.empty((len(packed), grouped.shape[1], 2, group), np.uint8)
    np.bitwise_and(grouped, 15, out=codes[:, :, 0])
    np.right_shift(grouped, 4, out=codes[:, :, 1])
    return codes.reshape(len(packed), -1)


def fifth_bits(words: npt.NDArray[np.uint8]) -> Codes:
    """The bits of 4 bytes [blocks, 4], each as 16 or 0 [blocks, 32]."""
    return np.unpackbits(words, axis=1, bitorder="little") << np.uint8(4)


def _q4_0(blocks: Records, values: Floats) -> None:
    values[:] = nibbles(blocks["q"])
    values -= 8
    values *= scale(blocks["d"])


def _q4_1(blocks: Records, values: Floats) -> None:
    values[:] = nibbles(blocks["q"])
    values *= scale(blocks["d"])
    values += scale(blocks["m"])


def _q5_0(blocks: Records, values: Floats) -> None:
    values[:] = nibbles(blocks["q"]) | fifth_bits(blocks["high"])
    values -= 16
    values *= scale(blocks["d"])


def _q5_1(blocks: Records, values: Floats) -> None:
    values[:] = nibbles(blocks["q"]) | fifth_bits(blocks["high"])
    values *= scale(blocks["d"])
    values += scale(blocks["m"])


def _q8_0(blocks: Records, values: Floats) -> None:
    values[:] = blocks["q"]
    values *= scale(blocks["d"])


def _iq4_nl(blocks: Records, values: Floats) -> None:
    np.take(NONLINEAR, nibbles(blocks["q"]), out=values, mode="clip")
    values *= scale(blocks["d"])


def _power_scales() -> Floats:
    """Half of 2^(e - 127) for each e; there is no code for infinity or NaN."""
    halves: Floats = np.ldexp(np.float32(1), np.arange(256) - 128)
    return halves


def _e4m3_scales() -> Floats:
    """Half of each E4M3 number without a sign; 0x7F, its NaN, counts as 0."""
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, (codes & 7).astype(np.float32)
    scales: Floats = np.where(
        exponent == 0, np.ldexp(mantissa, -10), np.ldexp(1 + mantissa / 8, exponent - 8)
    )
    scales[0x7F] = 0
    return scales


_POWER_SCALES, _E4M3_SCALES = _power_scales(), _e4m3_scales()


def _mxfp4(blocks: Records, values: Floats) -> None:
    np.take(_E2M1, nibbles(blocks["q"]), out=values, mode="clip")
    values *= _POWER_SCALES[blocks["e"]][:, None]


def _nvfp4(blocks: Records, values: Floats) -> None:
    np.take(_E2M1, nibbles(blocks["q"], 8), out=values, mode="clip")
    groups = values.reshape(-1, 4, 16)
    groups *= _E4M3_SCALES[blocks["e"]][:, :, None]


def _tq1_0(blocks: Records, values: Floats) -> None:
    """A byte is a fraction of 256 in base 3; tripling it makes a digit overflow."""
    start = 0
    for name, width, digits in (("long", 32, 5), ("short", 16, 5), ("rest", 4, 4)):
        powers = _POWERS_OF_3[:digits, None]
        shifted = blocks[name].reshape(-1, 1, width) * powers
        part = values[:, start : start + digits * width].reshape(-1, digits, width)
        part[:] = shifted.astype(np.uint16) * np.uint16(3) >> np.uint16(8)
        start += digits * width
    values -= 1
    values *= scale(blocks["d"])


def _tq2_0(blocks: Records, values: Floats) -> None:
    values[:] = pairs(blocks["q"])
    values -= 1
    values *= scale(blocks["d"])


def pairs(packed: Codes) -> Codes:
    """Bytes [blocks, 64] -> codes of two bits [blocks, 256]; 32 bytes hold 128: the lowest bits of
    all, then the next."""
    shifted = packed.reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    codes: Codes = (shifted & np.uint8(3)).reshape(-1, 256)
    return codes


SMALL_BLOCKS: dict[str, Layout] = {
    "Q4_0": (record(("d", "<f2"), ("q", "u1", 16)), _q4_0),
    "Q4_1": (record(("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)), _q4_1),
    "Q5_0": (record(("d", "<f2"), ("high", "u1", 4), ("q", "u1", 16)), _q5_0),
    "Q5_1": (record(("d", "<f2"), ("m", "<f2"), ("high", "u1", 4), ("q", "u1", 16)), _q5_1),
    "Q8_0": (record(("d", "<f2"), ("q", "i1", 32)), _q8_0),
    "IQ4_NL": (record(("d", "<f2"), ("q", "u1", 16)), _iq4_nl),
    "MXFP4": (record(("e", "u1"), ("q", "u1", 16)), _mxfp4),
    "NVFP4": (record(("e", "u1", 4), ("q", "u1", 32)), _nvfp4),
    "TQ1_0": (
        record(("long", "u1", 32), ("short", "u1", 16), ("rest", "u1", 4), ("d", "<f2")), _tq1_0),
    "TQ2_0": (record(("q", "u1", 64), ("d", "<f2")), _tq2_0),
}  # fmt: skip


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
    free bits of the first eight.
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
