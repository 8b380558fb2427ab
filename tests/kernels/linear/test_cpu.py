"""Packed matrices against exact sums, on odd shapes and in every type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import get_args

import pytest
import torch
from torch import Tensor

from kernels.dispatch import DEFAULT_ROWS, REFERENCE, BackendName, backend
from kernels.linear.cpu import PackedMatrix, can_pack
from kernels.linear.probe import CHOICES, best_product, best_rows, faster_float
from kernels.linear.reference import Matrix, PlainFormat, PlainMatrix, QuantisedTensors
from kernels.native.library import compiled
from tests.kernels.native.here import NEEDS_COMPILER, library

TYPES = [
    pytest.param(
        dtype,
        marks=pytest.mark.skipif(not can_pack(dtype), reason="oneDNN has no such product here"),
    )
    for dtype in (torch.float32, torch.bfloat16)
]
# Outputs and inputs; ones, odd ones, and ones past a block.
SHAPES = [(1, 1), (1, 33), (13, 7), (96, 64), (129, 257)]


def parts(shape: tuple[int, int], count: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, weight and bias with numbers near one."""
    generator = torch.Generator().manual_seed(shape[0] * 1000 + shape[1] + count)
    sizes = ((count, shape[1]), shape, (shape[0],))
    inputs, weight, bias = (torch.randn(size, generator=generator).to(dtype) for size in sizes)
    return inputs, weight, bias


def assert_exact(found: Tensor, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Within what rounding may do: of each product and sum in float32, then of the result."""
    wide = inputs.double() @ weight.double().T
    size = inputs.double().abs() @ weight.double().abs().T
    if bias is not None:
        wide, size = wide + bias.double(), size + bias.double().abs()
    additions = inputs.shape[1] + 1
    bound = size * additions * 2.0**-24 + wide.abs() * torch.finfo(inputs.dtype).eps
    assert ((found.double() - wide).abs() <= bound).all()


@pytest.mark.parametrize("kind", [PlainMatrix, partial(PackedMatrix, rows=DEFAULT_ROWS)])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_exact_but_for_rounding(
    shape: tuple[int, int],
    dtype: torch.dtype,
    with_bias: bool,
    kind: Callable[[Tensor, Tensor | None], Matrix],
) -> None:
    for count in (1, 2, 63, 64, 65, 130):
        inputs, weight, bias = parts(shape, count, dtype)
        given = bias if with_bias else None
        found = kind(weight, given)(inputs)
        assert found.dtype == dtype and found.shape == (count, shape[0])
        assert_exact(found, inputs, weight, given)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_slice_is_a_call_of_its_own(dtype: torch.dtype) -> None:
    inputs, weight, bias = parts((40, 24), 70, dtype)
    matrix = PackedMatrix(weight, bias, 32)
    slices = [matrix(inputs[:32]), matrix(inputs[32:64]), matrix(inputs[64:])]
    assert torch.equal(matrix(inputs), torch.cat(slices))


def test_a_matrix_keeps_nothing_of_the_weight_it_was_made_of() -> None:
    inputs, weight, _ = parts((40, 24), 3, torch.float32)
    matrix = PackedMatrix(weight, None, 64)
    expected = matrix(inputs)
    weight.fill_(float("nan"))
    assert torch.equal(matrix(inputs), expected)


def test_a_type_that_cant_be_packed_gets_the_reference() -> None:
    assert backend("cpu", torch.float64) is REFERENCE
    assert backend("reference", torch.float32) is REFERENCE


def test_backends_that_may_differ_in_bits_have_names_of_their_own() -> None:
    names = [backend("cpu", torch.float32, rows).name for rows in CHOICES]
    for name in get_args(BackendName):
        # Not published for every system; without a compiler `cpu` is `torch`.
        if (name != "gpu" or find_spec("triton")) and (name != "cpu" or compiled()):
            for each in ("int8", "int4"):
                names.append(backend(name, torch.bfloat16, 64, each, compiled()).name)
    assert len({*names, REFERENCE.name}) == len(names) + 1


def seconds_of(spent: list[float]) -> Callable[[], float]:
    """A clock that is read in pairs; each second reading is later by the next of `spent`."""
    left = iter(spent)
    now, running = 0.0, False

    def clock() -> float:
        nonlocal now, running
        if running:
            now += next(left)
        running = not running
        return now

    return clock


def test_the_probe_takes_what_was_fastest_in_its_best_round() -> None:
    """Each choice is timed in turn; 256 wins although it is slow in all rounds but one."""
    clock = seconds_of([9, 8, 1, 7, *[5, 4, 6, 3] * 4])
    assert best_rows(torch.float32, clock=clock) == 256


@NEEDS_COMPILER
def test_torchs_product_must_be_faster_by_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one call have bits of their own in the library's alone."""
    monkeypatch.setattr(library(), "has_pairs", True)
    assert best_product(library(), seconds_of([10, 12, 9.5] * 5)) == "pairs"
    assert best_product(library(), seconds_of([12, 10, 9.5] * 5)) == "floats"
    assert best_product(library(), seconds_of([10, 12, 8] * 5)) == "torch"
    monkeypatch.setattr(library(), "has_pairs", False)
    assert best_product(library(), seconds_of([10, 9] * 5)) == "torch"


class Timed(PlainMatrix):
    """Notes how it was called, and computes nothing."""

    def __init__(self, weight: Tensor, timed: list[tuple[str, int]]) -> None:
        super().__init__(weight, None)
        self._timed = timed

    def __call__(self, inputs: Tensor) -> Tensor:
        self._timed.append(("prompt", inputs.shape[0]))
        return inputs

    def step(self, inputs: Tensor) -> Tensor:
        self._timed.append(("step", inputs.shape[0]))
        return inputs


class Noting(PlainFormat):
    """Makes matrices that share a list of how they were called."""

    def __init__(self) -> None:
        self.timed: list[tuple[str, int]] = []

    def prepack(self, kept: QuantisedTensors, bias: Tensor | None) -> Matrix:
        return Timed(kept[0], self.timed)


def test_the_faster_type_is_by_generating_and_reading_together() -> None:
    """Seconds of one row and of 64, for each type: bfloat16 waits less and computes more."""
    formats = {torch.bfloat16: Noting(), torch.float32: Noting()}
    assert faster_float(formats, seconds_of([1, 64, 2, 16] * 5)) == torch.float32
    assert faster_float(formats, seconds_of([1, 32, 3, 16] * 5)) == torch.bfloat16
    # A third faster is no reason to take twice the memory.
    assert faster_float(formats, seconds_of([1, 48, 2, 16] * 5)) == torch.bfloat16
    for each in formats.values():  # a step is timed as a step, a prompt as a prompt
        assert set(each.timed) == {("step", 1), ("prompt", 64)}


@NEEDS_COMPILER
def test_the_faster_type_is_found_with_compiled_matrices() -> None:
    types = (torch.bfloat16, torch.float32)
    formats = {each: backend("cpu", each, library=library()).formats.usual for each in types}
    assert faster_float(formats, seconds_of([1, 32, 3, 16] * 5)) == torch.bfloat16
    assert faster_float(formats) in types
