"""Blocks of 256 values whose codes choose four or eight values from a table: IQ1, IQ2 and IQ3.

The tables are in resources/gguf/grids.npz, which packaging/tables/gguf_grids.py makes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.blocks.small import Codes, Floats, Layout, Records, record, scale

GRIDS = Path(__file__).resolve().parents[2] / "resources" / "gguf" / "grids.npz"
_SIGN_SHIFTS = np.array([0, 7, 14, 21], np.uint32)
_DELTA = np.float32(0.125)


@cache
def _grid(name: str) -> Floats:
    with np.load(GRIDS) as grids:
        rows: Floats = grids[name].astype(np.float32)
    return rows


@cache
def grid_codes(type_name: str) -> Codes | None:
    """The table of a type's rows, each number as its rank among those of the table; None for a type
    without one."""
    if type_name not in GRID_BLOCKS:
        return None
    grid = _grid("IQ1_S" if type_name == "IQ1_M" else type_name)
    return np.searchsorted(np.unique(grid), grid).astype(np.uint8)


@cache
def _shifted_grid() -> Floats:
    """IQ1's table raised by an eighth, then lowered by it: bit 11 of a code chooses."""
    grid = _grid("IQ1_S")
    return np.concatenate((grid + _DELTA, grid - _DELTA))


@cache
def _signs() -> Floats:
    """1 or -1 for the bits of each byte, [256, 8]."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    signs: Floats = 1 - 2 * bits.astype(np.float32)
    return signs


@cache
def _even_signs() -> Floats:
    """Signs for codes of seven bits: the eighth makes the number of minus signs even."""
    signs: Floats = _signs()[:128].copy()
    signs[:, 7] = signs[:, :7].prod(axis=1)
    return signs


def _fill(
    values: Floats, grid: Floats, rows: npt.NDArray[Any], scales: Floats,
    signs: Floats | None = None, sign_rows: npt.NDArray[Any] | None = None,
) -> None:  # fmt: skip
    """Rows of a grid, times the scale of each group, times rows of signs."""
    np.take(grid, rows, axis=0, out=values.reshape(*rows.shape, -1), mode="clip")
    groups = values.reshape(*scales.shape, -1)
    groups *= scales[:, :, None]
    if signs is not None and sign_rows is not None:
        flat = values.reshape(*sign_rows.shape, 8)
        flat *= np.take(signs, sign_rows, axis=0, mode="clip")


def _sign_codes(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Four codes of seven bits in each word: [blocks, 8] -> [blocks, 32]."""
    return (words[:, :, None] >> _SIGN_SHIFTS & np.uint32(127)).reshape(len(words), -1)


def _nibble_scales(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Low nibble, then high nibble of each byte."""
    return np.stack((packed & 15, packed >> 4), axis=2).reshape(len(packed), -1)


def _two_bit_scales(halves: npt.NDArray[Any], codes: npt.NDArray[Any]) -> Floats:
    return scale(halves) * (np.float32(0.5) + codes.astype(np.float32)) * np.float32(0.25)


def _iq2_xxs(blocks: Records, values: Floats) -> None:
    rows = blocks["q"]["rows"].reshape(-1, 32)
    words = blocks["q"]["signs"]
    scales = _two_bit_scales(blocks["d"], words >> 28)
    _fill(values, _grid("IQ2_XXS"), rows, scales, _even_signs(), _sign_codes(words))


def _iq2_xs(blocks: Records, values: Floats) -> None:
    rows, signs = blocks["q"] & 511, blocks["q"] >> 9
    scales = _two_bit_scales(blocks["d"], _nibble_scales(blocks["scales"]))
    _fill(values, _grid("IQ2_XS"), rows, scales, _even_signs(), signs)


def _iq2_s(blocks: Records, values: Floats) -> None:
    high = blocks["high"][:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    rows = blocks["q"] | high.reshape(-1, 32).astype(np.uint16) << 8
    scales = _two_bit_scales(blocks["d"], _nibble_scales(blocks["scales"]))
    _fill(values, _grid("IQ2_S"), rows, scales, _signs(), blocks["signs"])


def _iq3_xxs(blocks: Records, values: Floats) -> None:
    words = blocks["words"]
    scales = scale(blocks["d"]) * (np.float32(0.5) + (words >> 28).astype(np.float32))
    scales *= np.float32(0.5)
    _fill(values, _grid("IQ3_XXS"), blocks["q"], scales, _even_signs(), _sign_codes(words))


def _iq3_s(blocks: Records, values: Floats) -> None:
    high = np.unpackbits(blocks["high"], axis=1, bitorder="little")
    rows = blocks["q"] | high.astype(np.uint16) << 8
    scales = scale(blocks["d"]) * (1 + 2 * _nibble_scales(blocks["scales"]))
    _fill(values, _grid("IQ3_S"), rows, scales, _signs(), blocks["signs"])


def _iq1_s(blocks: Records, values: Floats) -> None:
    words = blocks["high"]
    high = words[:, :, None] >> np.array([0, 3, 6, 9], np.uint16) & 7
    high |= (words >> 15 << 3)[:, :, None]
    rows = blocks["q"] | high.reshape(-1, 32) << 8
    _fill(values, _shifted_grid(), rows, scale(blocks["d"]) * (2 * (words >> 12 & 7) + 1))


def _iq1_m(blocks: Records, values: Floats) -> None:
    """The float16 scale is in the highest four bits of four words of scales."""
    words = blocks["scales"]
    parts = words >> 12 << np.array([0, 4, 8, 12], np.uint16)
    halves = np.bitwise_or.reduce(parts, axis=1).view(np.float16)
    codes = (words[:, :, None] >> np.array([0, 3, 6, 9], np.uint16) & 7).reshape(-1, 16)
    rows = blocks["q"] | _nibble_scales(blocks["high"]).astype(np.uint16) << 8
    _fill(values, _shifted_grid(), rows, scale(halves) * (2 * codes + 1))


_PAIR = np.dtype([("rows", "u1", (4,)), ("signs", "<u4")])
GRID_BLOCKS: dict[str, Layout] = {
    "IQ1_S": (record(("d", "<f2"), ("q", "u1", 32), ("high", "<u2", 8)), _iq1_s),
    "IQ1_M": (record(("q", "u1", 32), ("high", "u1", 16), ("scales", "<u2", 4)), _iq1_m),
    "IQ2_XXS": (np.dtype([("d", "<f2"), ("q", _PAIR, (8,))]), _iq2_xxs),
    "IQ2_XS": (record(("d", "<f2"), ("q", "<u2", 32), ("scales", "u1", 8)), _iq2_xs),
    "IQ2_S": (
        record(("d", "<f2"), ("q", "u1", 32), ("signs", "u1", 32), ("high", "u1", 8),
               ("scales", "u1", 8)), _iq2_s),
    "IQ3_XXS": (record(("d", "<f2"), ("q", "u1", 64), ("words", "<u4", 8)), _iq3_xxs),
    "IQ3_S": (
        record(("d", "<f2"), ("q", "u1", 64), ("high", "u1", 8), ("signs", "u1", 32),
               ("scales", "u1", 4)), _iq3_s),
}  # fmt: skip
