"""Products with GGUF blocks: published values, and rows rounded to 8 bits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels.blocks.types import GGUFType, dequantise
from kernels.common.memory import Arena
from kernels.dispatch import backend
from kernels.experts.native import NativeExperts, make_bank
from kernels.experts.reference import LoopedExperts, gated
from kernels.linear import reference
from kernels.linear.blocks import BlockFormat, StoredRows
from kernels.linear.native_blocks import NativeBlockFormat
from kernels.linear.reference import Matrix, StackedMatrix
from kernels.native.library import Library, capture_step
from tests.kernels.native.here import COMPILES, NEEDS_COMPILER, library

pytestmark = NEEDS_COMPILER
CPU = torch.device("cpu")
# Where float16 numbers are in a block of each type.
NUMBERS = {
    GGUFType.Q4_1: (0, 2), GGUFType.Q5_1: (0, 2), GGUFType.Q4_K: (0, 2), GGUFType.Q5_K: (0, 2),
    GGUFType.Q2_K: (80, 82), GGUFType.Q3_K: (108,), GGUFType.Q6_K: (208,),
    GGUFType.TQ1_0: (52,), GGUFType.TQ2_0: (64,), GGUFType.IQ1_M: (), GGUFType.NVFP4: (),
}  # fmt: skip
TYPES = pytest.mark.parametrize(
    "type", [type for type in GGUFType if type.block_values > 1], ids=lambda type: type.name
)


def blocks(type: GGUFType, outputs: int, inputs: int, *, extreme: bool = False) -> Tensor:
    """Random blocks [outputs, row bytes] with usual numbers, or with the largest codes and scales
    that there are and numbers that are denormal."""
    generator, unit = np.random.default_rng(type.id), 1e-6 if extreme else 0.01
    shape = (outputs, inputs // type.block_values, type.block_bytes)
    data = generator.integers(0, 256, shape, np.uint8)
    if extreme:
        data[:] = 0xFF if outputs % 2 else 0x00
    for place in NUMBERS.get(type, (0,)):
        numbers = (unit * generator.standard_normal(shape[:2])).astype(np.float16)
        data[..., place : place + 2] = numbers[..., None].view(np.uint8)
    if type is GGUFType.MXFP4:
        data[..., 0] = generator.integers(116, 124, shape[:2])
    if type is GGUFType.IQ1_M:  # four bits of the number in each word of scales
        words, shifts = data[..., 48:].view("<u2"), np.array([0, 4, 8, 12], np.uint16)
        halves = (unit * generator.standard_normal(shape[:2])).astype(np.float16).view(np.uint16)
        words[:] = words & 0xFFF | (halves[..., None] >> shifts & 15) << 12
    return torch.from_numpy(data).flatten(1)


def exact(held: BlockFormat, rows: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The product in float64 of inputs rounded as the kernels do, and the sum of its sizes."""
    weight = torch.from_numpy(dequantise(held.type, rows.numpy())).double()
    given = inputs if held.columns is None else inputs[:, held.columns]
    together = 256 if held.type.block_values == 256 else 32
    missing = -given.shape[1] % together
    parts = torch.nn.functional.pad(given.float(), (0, missing)).unflatten(1, (-1, together))
    scales = (parts.abs().amax(2, keepdim=True) / 127).clamp_min(1e-30)
    rounded = ((parts / scales).round().double() * scales).flatten(1)[:, : given.shape[1]]
    return rounded @ weight.T, rounded.abs() @ weight.abs().T


def native(
    type: GGUFType, inputs: int, columns: Tensor | None = None, of: Library | None = None
) -> NativeBlockFormat:
    return NativeBlockFormat(of or library(), Arena(), type, inputs, columns)


def assert_published(held: BlockFormat, rows: Tensor, given: Tensor) -> None:
    """Many rows are right, and each has the bits that it has in a step or beside a few others.
    Those of NVFP4 are times scales."""
    scaled = held.type is GGUFType.NVFP4
    scales = torch.linspace(0.5, 3, len(rows)) if scaled else torch.ones(len(rows))
    expected, size = (each * scales for each in exact(held, rows, given))
    matrix = held.prepack((rows, scales) if scaled else (rows,), None)
    found = matrix(given)
    assert ((found - expected).abs() <= 1e-6 * size + 1e-12).all()
    for count in (1, 2, 3, 4, 5, 8):
        assert torch.equal(matrix.step(given[:count]), found[:count])
        assert torch.equal(matrix(given[7 : 7 + count]), found[7 : 7 + count])
    for count in (37, 4 * len(given)):  # AMX takes 32 rows at once
        more = found.repeat(4, 1)[:count]
        assert torch.equal(matrix(given.repeat(4, 1)[:count]), more)


def extreme_rows() -> Tensor:
    """Rows [26, 512] of which pairs of products add up to the largest sums that there are."""
    given = torch.tensor([127.0, -127.0]).repeat_interleave(13)[:, None].expand(26, 512).clone()
    given[::3, ::2] *= -1
    return given


def test_rows_of_another_width_are_refused() -> None:
    matrix = native(GGUFType.Q4_K, 512).prepack((blocks(GGUFType.Q4_K, 16, 512),), None)
    for width in (0, 511, 513):
        for multiply in (matrix, matrix.step):
            with pytest.raises(RuntimeError):
                multiply(torch.ones(1, width))


@TYPES
@pytest.mark.parametrize(("outputs", "inputs"), [(40, 512), (33, 768), (16, 288), (1, 2304)])
def test_products_are_those_of_the_published_values(
    type: GGUFType, outputs: int, inputs: int
) -> None:
    inputs -= inputs % type.block_values
    rows = blocks(type, outputs, inputs)
    assert_published(native(type, inputs), rows, torch.randn(29, inputs))


@TYPES
@pytest.mark.parametrize("outputs", [16, 17])
def test_the_largest_sums_are_exact(type: GGUFType, outputs: int) -> None:
    assert_published(native(type, 512), blocks(type, outputs, 512, extreme=True), extreme_rows())


@TYPES
def test_columns_bias_and_bfloat16(type: GGUFType) -> None:
    columns, bias = torch.randperm(512), torch.randn(48).bfloat16()
    held, rows = native(type, 512, columns), blocks(type, 48, 512)
    given = torch.randn(20, 512).bfloat16()
    matrix = held.prepack((rows,), bias)
    expected, size = exact(held, rows, given)
    found = matrix(given)
    assert (
        (found - (expected + bias)).abs() <= 2**-8 * (expected + bias).abs() + 1e-6 * size
    ).all()
    assert torch.equal(matrix.step(given[:3]), found[:3])
    assert torch.equal(matrix.first(19)(given), found[:, :19])
    assert matrix(given[:0]).shape == (0, 48)
    assert held.num_bytes((48, 512), torch.bfloat16) + bias.nbytes == matrix.num_bytes


@pytest.mark.parametrize("type", [GGUFType.NVFP4, GGUFType.Q4_K])
def test_finished_sums_are_times_the_scales_of_their_rows(type: GGUFType) -> None:
    """Of parts of one matrix, of which one has none."""
    rows, scales, bias = blocks(type, 45, 512), torch.randn(32).exp(), torch.randn(45)
    parts = [StoredRows.of(rows[:32], scales), StoredRows.of(rows[32:])]
    given, both = torch.randn(70, 512), torch.cat((scales, torch.ones(13)))
    floats, exact = BlockFormat(type, 512), given.double()
    expected = floats.prepack((rows,), None)(exact) * both
    difference = floats.pack_rows(parts, None, CPU)(exact) - expected
    assert (difference.abs().amax(0) < 1e-6 * expected.std(0)).all()
    held = native(type, 512)
    found, matrix = held.prepack((rows,), None)(given) * both, held.pack_rows(parts, bias, CPU)
    assert torch.equal(matrix(given), found + bias)
    assert torch.equal(matrix.step(given[:3]), (found + bias)[:3])
    assert torch.equal(matrix.first(19)(given), (found + bias)[:, :19])
    order = torch.randperm(32)
    ordered = held.pack_rows([parts[0].in_order(order)], None, CPU)
    assert torch.equal(ordered(given), found[:, order])
    each_part = [held.pack_rows([each], None, CPU)(given) for each in parts[0].split(16)]
    assert torch.equal(torch.cat(each_part, dim=1), found[:, :32])


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_bits_depend_on_no_number_of_threads(threads: int) -> None:
    matrix = native(GGUFType.Q4_K, 512).prepack((blocks(GGUFType.Q4_K, 3000, 512),), None)
    given = torch.randn(20, 512).bfloat16()
    expected = matrix(given), matrix.step(given[:4])
    torch.set_num_threads(threads)
    found = matrix(given), matrix.step(given[:4])
    torch.set_num_threads(1)
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])


@pytest.mark.parametrize("type", [GGUFType.Q4_K, GGUFType.Q6_K, GGUFType.Q8_0, GGUFType.NVFP4])
@pytest.mark.parametrize("gates", [None, GGUFType.IQ4_XS])
def test_experts_are_their_matrices(type: GGUFType, gates: GGUFType | None) -> None:
    def matrices(type: GGUFType, outputs: int, inputs: int) -> list[Matrix]:
        """Matrices of NVFP4 have scales of rows."""
        rows = blocks(type, 6 * outputs, inputs).split(outputs)
        scales = [torch.rand(outputs)] if type is GGUFType.NVFP4 else []
        return [native(type, inputs).prepack((each, *scales), None) for each in rows]

    up, down = matrices(type, 512, 256), matrices(type, 256, 256)
    if gates is not None:
        both = zip(matrices(gates, 256, 256), matrices(type, 256, 256), strict=True)
        up = [StackedMatrix([*each], [256, 256]) for each in both]

    activation = gated(backend("cpu", torch.bfloat16, library=library(), published=True).ops.swiglu)
    bank = make_bank(library(), False, up, down, activation)
    assert isinstance(bank, NativeExperts)
    hidden = torch.randn(9, 256).bfloat16()
    ids = torch.stack([torch.randperm(6)[:2].sort().values for _ in range(9)]).int()
    places, rows = bank(hidden, ids)
    other_places, expected = LoopedExperts(up, down, activation)(hidden, ids)
    assert places is not None and other_places is not None
    assert torch.equal(rows[places], expected[other_places])
    _, step = bank(hidden[:2], ids[:2], is_step=True)
    assert torch.equal(step, rows[places][:4])

    def captured(_: object) -> Tensor:
        return bank(hidden[:2], ids[:2], is_step=True)[1]

    with torch.inference_mode():
        trace, result = capture_step(library(), 0, captured)
        result.zero_()
        trace.replay(0, lambda: None)
    assert torch.equal(result, step)


# Rows through one expert of Q8_0 whose last blocks aren't full: as many blocks as a step may have.
FULLEST = """
#include <stdlib.h>
#include "native/calls.h"
int main(void) {
    long rows = 61, inputs = 17184, outputs = 16;
    const void *weights[] = {calloc(rows * inputs, 1)};
    struct expert_rows all = {calloc(rows * inputs, 4), weights, NULL, NULL, calloc(rows, 4),
                              calloc(rows * outputs, 4), rows, 1, outputs, inputs, inputs,
                              .to_stride = outputs, .threads = 1, .format = 8};
    return !waymark_experts_blocks(&all);
}
"""


@COMPILES
@pytest.mark.slow
def test_the_fullest_step_stays_in_its_memory(tmp_path: Path) -> None:
    kernels, program = Path(reference.__file__).parents[1], tmp_path / "fullest"
    names = ("blocks", "quantise", "product")
    sources = [
        *(kernels / "linear" / f"{name}.c" for name in names),
        *(kernels / "native" / f"{name}.c" for name in ("thread_pool", "openmp")),
    ]
    program.with_suffix(".c").write_text(FULLEST)
    flags = [
        "-std=gnu11",
        "-w",
        "-fsanitize=address",
        "-I",
        str(kernels),
        "-o",
        str(program),
        "-lm",
    ]
    command = ["cc", str(program.with_suffix(".c")), *map(str, sources), *flags]
    compiled = subprocess.run(command, check=False, capture_output=True, text=True)
    if "asan" in compiled.stderr:
        pytest.skip("the compiler has no AddressSanitizer")
    assert compiled.returncode == 0, compiled.stderr
    subprocess.run([program], check=True, env={"ASAN_OPTIONS": "detect_leaks=0"})
