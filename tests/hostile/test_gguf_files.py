"""Mutants of GGUF files: a header gives an error with a name, values or a planned model; any block
gives numbers, which the kernels multiply as they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from core.api.errors import WaymarkError
from core.gguf.file import GGUFFile
from core.loading.files import open_files
from core.loading.plan import ModelPlan
from kernels.blocks.types import GGUFType, dequantise
from tests.gguf.conftest import ConvertedOf, converted, converter
from tests.gguf.files import Tensor, gguf
from tests.hostile.counts import each_of
from tests.hostile.mutation import mutated_bytes
from tests.hostile.watch import grows_less_than, opened_elsewhere
from tests.kernels.linear.test_blocks import exact, native
from tests.kernels.native.here import NEEDS_COMPILER

__all__ = ["converted", "converter"]

BLOCKS = [type for type in GGUFType if type.block_values > 1]
LONGEST_S = 5.0
GROWTH_BYTES = 256 * 2**20
WHOLE = gguf(
    {"general.architecture": ("text", "llama"), "general.alignment": ("u32", 32),
     "split.count": ("u16", 1), "tokenizer.ggml.tokens": ("[text]", ["a", "ü", ""]),
     "tokenizer.ggml.token_type": ("[i32]", [1, 2, 3]), "tokenizer.ggml.bos_token_id": ("u32", 0),
     "tokenizer.ggml.add_bos_token": ("bool", 1), "llama.rope.freq_base": ("f32", 1e6),
     "flags": ("[bool]", [1, 0]), "large": ("u64", 2**63)},
    [Tensor(type.name, (2, type.block_values), type.id) for type in GGUFType],
)  # fmt: skip


@pytest.fixture(scope="module")
def model(converted: ConvertedOf) -> tuple[bytes, bytes]:
    """The header and the tensors of a quantised model, made before files are watched."""
    file = converted("fused-llama-biases", "MOSTLY_Q8_0").file
    start = min(each.offset for each in GGUFFile.open(file).tensors.values())
    return file.read_bytes()[:start], file.read_bytes()[start:]


@pytest.fixture(autouse=True)
def within_bounds(tmp_path: Path) -> Iterator[None]:
    with grows_less_than(GROWTH_BYTES), opened_elsewhere(tmp_path) as found:
        yield
    assert found == []


@each_of(1_000)
def test_mutants_of_headers_end_in_a_name_or_in_values(tmp_path: Path, seeds: range) -> None:
    path, damaged = tmp_path / "m.gguf", 0
    for seed in seeds:
        path.write_bytes(mutated_bytes(WHOLE, seed))
        began = time.monotonic()
        message = said(path, read_all)
        damaged += message is not None
        assert message is None or 0 < len(message) < 3_000
        assert time.monotonic() - began < LONGEST_S
    assert 0 < damaged < len(seeds)


def said(path: Path, read: Callable[[Path], object]) -> str | None:
    """The message of an error with a name; None if everything can be read."""
    try:
        read(path)
    except WaymarkError as error:
        return error.message
    return None


def read_all(path: Path) -> None:
    file = GGUFFile.open(path)
    assert all(len(repr(value)) < 10_000 for value in file.metadata.values())
    raw = np.frombuffer(path.read_bytes(), np.uint8)
    for each in file.tensors.values():
        values = dequantise(each.type, raw[each.offset : each.offset + each.num_bytes])
        assert values.size == np.prod(each.shape)


def planned(path: Path) -> None:
    ModelPlan(open_files(path).container).held(torch.bfloat16)


@each_of(1_000)
def test_mutants_of_blocks_are_numbers(seeds: range) -> None:
    for type in GGUFType:
        whole = bytes(range(256)) * 8
        for seed in seeds[:: len(GGUFType)]:
            mutant = np.frombuffer(mutated_bytes(whole, seed), np.uint8)
            blocks = mutant[: len(mutant) // type.block_bytes * type.block_bytes]
            assert dequantise(type, blocks).size == len(blocks) // type.block_bytes * (
                type.block_values
            )


@each_of(1_000)
def test_mutants_of_a_models_header_end_in_a_name_or_in_a_plan(
    model: tuple[bytes, bytes], tmp_path: Path, seeds: range
) -> None:
    path, damaged = tmp_path / "m.gguf", 0
    for seed in seeds:
        path.write_bytes(mutated_bytes(model[0], seed, most=3) + model[1])
        began = time.monotonic()
        message = said(path, planned)
        damaged += message is not None
        assert message is None or 0 < len(message) < 3_000
        assert time.monotonic() - began < LONGEST_S
    assert 0 < damaged < len(seeds)


@NEEDS_COMPILER
@each_of(1_000)
def test_mutants_of_blocks_are_multiplied_as_the_numbers_that_they_are(seeds: range) -> None:
    given = torch.randn(5, 512, generator=torch.Generator().manual_seed(1))
    for type in BLOCKS:
        held = native(type, 512)
        whole = bytes(range(256)) * (32 * held.row_bytes // 256)
        for seed in seeds[:: len(BLOCKS)]:
            mutant = np.frombuffer(mutated_bytes(whole, seed).ljust(len(whole), b"\0"), np.uint8)
            rows = torch.from_numpy(mutant[: 16 * held.row_bytes].reshape(16, -1).copy())
            expected, size = exact(held, rows, given)
            matrix = held.prepack((rows,), None)
            found = matrix(given)
            assert torch.equal(found.isnan(), matrix(given).isnan())
            known = expected.isfinite() & (size < 1e30)
            assert ((found - expected).abs() <= 1e-5 * size + 1e-12)[known].all()
