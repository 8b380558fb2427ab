"""The same sources for other processors of this architecture: other instructions, results as right.

`make test-arm64` runs all kernel tests on a processor of each level of arm64 instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from kernels.blocks.types import GGUFType
from kernels.common.shapes import (
    AttentionShape,
    Clamp,
    DeltaShape,
    FullAttentionShape,
    GateShape,
    GroupNormShape,
    Mamba2Shape,
    NormShape,
    OpenGateShape,
    RotationShape,
    SquaredReluShape,
    SumShape,
)
from kernels.dispatch import REFERENCE, Backend
from kernels.linear.native import (
    MOST_STEPS,
    NativeBfloatFormat,
    NativeInt4Format,
    NativeInt8Format,
    Product,
)
from kernels.linear.reference import WeightFormat
from kernels.native import build, levels
from kernels.native.build import built
from kernels.native.levels import executable
from kernels.native.library import Library
from kernels.native.shipped import NoneShippedError, folder, usable
from kernels.native_ops import native_ops
from kernels.self_test.validation import validated
from tests.kernels.linear.test_blocks import (
    TYPES,
    assert_published,
    blocks,
    extreme_rows,
    native,
)
from tests.kernels.linear.test_cpu import assert_exact, parts
from tests.kernels.linear.test_native import assert_integers_exact, held, in_bytes, rounded
from tests.kernels.native.here import (
    IN_BYTES,
    NEEDS_COMPILER,
    compiled_for,
    library,
    makes_bytes,
)
from tests.kernels.poison import poisoned_memory
from tests.sweeps import thinned

pytestmark = NEEDS_COMPILER
# AMX is played, so that what is made for it is tried where there is none.
AMX = ("-march=native", "-include", str(Path(__file__).parent / "emulated_amx.h"))
OTHERS = {"no vectors of bytes": ("-march=x86-64",), "emulated AMX": AMX}
# The newest has what this processor has, as the kernels of all other tests.
LEVELS = [*OTHERS, *(level.name for level in executable()[:-1])]
PRODUCTS: tuple[Product, ...] = ("pairs", "floats")
# And what comes along for each level.
SHIPPED = [f"shipped {level.name}" for level in levels.LEVELS if level.machine == levels.machine()]
SHAPES = (
    NormShape(33),
    NormShape(64, gated=True),
    NormShape(64, gated=True, sigmoid=True),
    NormShape(40, passed=8),
    GateShape(50),
    GateShape(50, gelu=True),
    GateShape(50, clamp=Clamp(1.702, 7.0)),
    OpenGateShape(3, 18),
    SumShape(50),
    RotationShape(3, 34, 16),
    AttentionShape(4, 2, 40),
    FullAttentionShape(2, 72),
    DeltaShape(2, 40, 4, 50, 4),
    DeltaShape(2, 40, 4, 48, 4),
    DeltaShape(2, 40, 4, 48, 4, by_channel=True),
    Mamba2Shape(4, 33, 2, 48, 4),
    GroupNormShape(2, 50),
    SquaredReluShape(50),
)


COMPILED = thinned(LEVELS if levels.machine() == "x86_64" else (), ())


@pytest.fixture(params=(*COMPILED, *SHIPPED), scope="module")
def older(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    shared_folder: Path,
) -> Iterator[Library]:
    if request.param in SHIPPED:
        folder_of = tmp_path_factory.mktemp("level")
        yield came_along(request.param.removeprefix("shipped "), folder_of)
        return
    if request.param not in OTHERS:
        yield Library(compiled_for(request.param, shared_folder))
        return
    level = OTHERS[request.param]
    if level is AMX and not torch.cpu.get_capabilities().get("avx512_bf16"):
        pytest.skip("no processor has AMX without products of bfloat16")
    # Vectors that a processor lacks take a compiler three times as long at -O2.
    flags = ["-O1" if flag == "-O3" else flag for flag in build._flags()]
    wanted = [*(flag for flag in flags if not flag.startswith("-march")), *level]
    with pytest.MonkeyPatch.context() as patch, FileLock(shared_folder / "others.lock"):
        patch.setattr(build, "_flags", lambda: wanted)
        found = built(shared_folder / "others")
    yield Library(found)


def came_along(name: str, cache: Path) -> Library:
    """The library that `make native` built for this level."""
    if not folder().is_dir():
        pytest.skip("`make native` was not run here")
    wanted = [level for level in levels.executable() if level.name == name]
    if not wanted:
        pytest.skip(f"this processor has no {name}")
    try:
        return Library(usable(wanted, cache))
    except NoneShippedError as error:
        # A processor may be said to have what it hasn't; and sources change between two builds.
        if "lacks an instruction" in str(error) or "other sources" in str(error):
            pytest.skip(str(error))
        raise


def test_products_and_operations_are_right(older: Library, request: pytest.FixtureRequest) -> None:
    level = str(request.node.callspec.params["older"]).removeprefix("shipped ")
    torch.set_num_threads(2)
    for shape in ((13, 7), (96, 64), (129, 257), (70, 1000)):
        for count in (1, 8, 40):
            inputs, weight, bias = parts(shape, count, torch.bfloat16)
            for product in PRODUCTS:
                plain = NativeBfloatFormat(older, product)
                matrix = plain.prepack(plain.quantise(weight), bias)
                for found in (matrix(inputs), matrix.step(inputs)):
                    assert_exact(found, inputs, weight, bias)
            for weight_format in (NativeInt8Format(older), NativeInt4Format(older)):
                kept = weight_format.quantise(weight)
                matrix, numbers = weight_format.prepack(kept, bias), held(kept, shape[1])
                steps = inputs[:MOST_STEPS]
                assert_integers_exact(matrix.step(steps), rounded(steps), numbers, bias)
                if isinstance(weight_format, NativeInt4Format) and level in (
                    *IN_BYTES,
                    "emulated AMX",
                ):
                    numbers = in_bytes(kept, shape[1])
                    own = NativeInt4Format(library()).prepack(kept, bias)
                    assert not makes_bytes() or torch.equal(own(inputs), matrix(inputs))
                assert_integers_exact(matrix(inputs), rounded(inputs), numbers, bias)
    backend = Backend("older", REFERENCE.formats, native_ops(older))
    for dtype in (torch.float32, torch.bfloat16):
        assert validated(backend, SHAPES, torch.device("cpu"), dtype) is backend
    torch.set_num_threads(1)


def test_no_bit_depends_on_rows_beside_it_or_on_threads(older: Library) -> None:
    inputs, weight, bias = parts((70, 1000), 1025, torch.bfloat16)
    formats: tuple[WeightFormat, ...] = (
        *(NativeBfloatFormat(older, product) for product in PRODUCTS),
        NativeInt8Format(older),
        NativeInt4Format(older),
    )
    for weight_format in formats:
        matrix = weight_format.prepack(weight_format.quantise(weight), bias)
        together = matrix(inputs)
        for threads in (2, 3, 4):
            torch.set_num_threads(threads)
            with poisoned_memory():
                assert torch.equal(matrix(inputs), together)
        torch.set_num_threads(1)
        for first, end in ((0, 1), (5, 18), (31, 64), (1000, 1025)):
            with poisoned_memory():
                assert torch.equal(matrix(inputs[first:end]), together[first:end])


@TYPES
def test_products_with_blocks_are_right(older: Library, type: GGUFType) -> None:
    held = native(type, 512, of=older)
    assert_published(held, blocks(type, 33, 512), torch.randn(29, 512))
    for outputs in (16, 17):
        assert_published(held, blocks(type, outputs, 512, extreme=True), extreme_rows())


def test_integers_are_exact(older: Library) -> None:
    """Products of bytes that add up pairs in 16 bits would overflow here."""
    draw = torch.Generator().manual_seed(0)
    values = torch.full((40, 520), 127, dtype=torch.int8)
    values[::3] = -127
    inputs = torch.randint(-127, 128, (9, 520), generator=draw).float()
    inputs[:, 0] = 127  # so that the scale of each row is one
    matrix = NativeInt8Format(older).prepack((values, torch.ones(40, 1)), None)
    for count in (1, 9):
        expected = inputs[:count].double() @ values.double().T
        assert torch.equal(matrix(inputs[:count]).double(), expected)
