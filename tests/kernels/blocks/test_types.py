"""Every type's values have the bits that the `gguf` package gives them (G1)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from kernels.blocks import types
from kernels.blocks.grid import GRIDS
from kernels.blocks.types import GGUFType, dequantise

ROOT = Path(__file__).parents[3]
ROUNDED = {"F64", "I8", "I16", "I32", "I64"}
COMPARED = [type for type in GGUFType if type.name not in ROUNDED]
SPECIAL = np.array(
    [0, -0.0, 1, -1, 2**-24, -(2**-24), 2**-14, 1023 * 2**-24, 65504, -65504, np.inf, -np.inf,
     np.nan], np.float16,
)  # fmt: skip
HALVES = np.concatenate((SPECIAL.view(np.uint16), np.array([0x7C01, 0xFE55, 0xFC01], np.uint16)))
Bytes = npt.NDArray[np.uint8]


def oracle(type: GGUFType, data: Bytes) -> npt.NDArray[np.float32]:
    values: Any = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(type.id))
    return np.asarray(values, np.float32)


def random(type: GGUFType, rows: int, count: int = 1, seed: int = 0) -> Bytes:
    generator = np.random.default_rng([seed, type.id])
    return generator.integers(0, 256, (rows, count * type.block_bytes), np.uint8)


def with_scales(type: GGUFType) -> Bytes:
    """Random blocks with each pair of special float16 numbers as the scale and the minimum."""
    found = types._LAYOUTS.get(type.name)
    names = [name for name in ("d", "m") if found and name in (found[0].names or ())]
    pairs = [(first, second) for first in HALVES for second in HALVES] if names else []
    data = random(type, max(len(pairs), 1), seed=1)
    if found and names:
        records = data.view(found[0]).reshape(-1)
        for place, name in enumerate(names):
            records[name] = np.array([pair[place] for pair in pairs], np.uint16).view(np.float16)
    return data


CASES: dict[str, Callable[[GGUFType], Bytes]] = {
    "random": lambda type: random(type, 500),
    "rows of several": lambda type: random(type, 3, 70, seed=2).reshape(3, 1, -1),
    "more than at once": lambda type: random(type, 1, 2**17 // type.block_values + 3, seed=3),
    "scales": with_scales,
    "zeros": lambda type: np.zeros((2, type.block_bytes), np.uint8),
    "ones": lambda type: np.full((2, type.block_bytes), 255, np.uint8),
    "every byte": lambda type: np.repeat(np.arange(256, dtype=np.uint8), type.block_bytes).reshape(
        256, -1
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the package's arithmetic
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("type", COMPARED, ids=lambda type: type.name)
def test_G1_the_same_bits(type: GGUFType, case: str) -> None:
    data = CASES[case](type)
    wanted, given = oracle(type, data), dequantise(type, data)
    assert given.dtype == np.float32 and given.shape == wanted.shape
    different = given.view(np.uint32) != wanted.view(np.uint32)
    assert not different.any(), (wanted[different][:5], given[different][:5])


@pytest.mark.parametrize("name", sorted(ROUNDED))
def test_plain_numbers(name: str) -> None:
    kind = {"F64": "<f8", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}[name]
    numbers = np.array([[0, 1, -128, 127]], kind)
    values = dequantise(GGUFType[name], numbers.view(np.uint8))
    assert values.dtype == np.float32 and values.tolist() == numbers.tolist()
    assert np.isnan(dequantise(GGUFType.F64, np.full((1, 8), 255, np.uint8)))


@pytest.mark.parametrize("type", COMPARED, ids=lambda type: type.name)
def test_no_blocks_and_blocks_of_a_view(type: GGUFType) -> None:
    assert dequantise(type, np.empty((0, 3 * type.block_bytes), np.uint8)).shape == (
        0, 3 * type.block_values
    )  # fmt: skip
    wide = random(type, 4, 3)
    part = wide[::2, type.block_bytes :]
    assert dequantise(type, part).tobytes() == dequantise(type, part.copy()).tobytes()


def test_sizes() -> None:
    for name, (layout, _) in types._LAYOUTS.items():
        assert layout.itemsize == GGUFType[name].block_bytes
        size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
        assert size == (GGUFType[name].block_values, GGUFType[name].block_bytes)


def test_the_tables_are_those_of_the_package() -> None:
    script = ROOT / "packaging" / "tables" / "gguf_grids.py"
    spec = importlib.util.spec_from_file_location("gguf_grids", script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with np.load(GRIDS) as shipped:
        assert {name: shipped[name].tolist() for name in shipped} == {
            name: grid.tolist() for name, grid in module.grids().items()
        }
