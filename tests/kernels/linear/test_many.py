"""Many rows on AMX: no result depends on threads or on other rows, and the unit and
memory are left to others as they were. That results are right is in test_native."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernels.linear.native import NativeInt4Format, NativeInt8Format
from kernels.linear.reference import Matrix
from tests.kernels.linear.test_cpu import parts
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.kernels.native.tiles import assert_unit_set_as_before, ended_with, has_tiles

pytestmark = NEEDS_COMPILER
Kind = type[NativeInt8Format] | type[NativeInt4Format]
FORMATS = pytest.mark.parametrize("kind", [NativeInt8Format, NativeInt4Format])
ROWS = 77


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is right on every machine; where it is slower than torch's, it is not used."""
    has_tiles()
    monkeypatch.setattr(library(), "has_tiles", True)


def packed(kind: Kind, outputs: int) -> tuple[Matrix, torch.Tensor]:
    weight_format = kind(library())
    inputs, weight, bias = parts((outputs, 100), ROWS, torch.bfloat16)
    return weight_format.prepack(weight_format.quantise(weight), bias), inputs


@FORMATS
def test_bits_depend_on_no_number_of_threads(kind: Kind) -> None:
    matrix, inputs = packed(kind, 1500)
    expected = matrix(inputs)
    for threads in (2, 3, 8):
        torch.set_num_threads(threads)
        found = matrix(inputs)
        torch.set_num_threads(1)
        assert torch.equal(found, expected)


@FORMATS
@pytest.mark.parametrize("number", [7.0, float("nan"), float("inf")])
def test_bits_depend_on_no_other_row(kind: Kind, number: float) -> None:
    """Neither on what is beside it nor on how many there are, nor on its place."""
    matrix, inputs = packed(kind, 70)
    expected = matrix(inputs)
    others = inputs.clone()
    others[::2] = number
    found = matrix(others)
    assert torch.equal(found[1::2], expected[1::2])
    assert bool(found[::2].isfinite().any()) == (number == 7)
    for count in (9, 33, 64):
        assert torch.equal(matrix(inputs[-count:]), expected[-count:])


def test_others_find_the_matrix_unit_set_as_they_left_it(tmp_path: Path) -> None:
    both = """
        static int compute(void) {
            return multiply(waymark_linear_int8_many) && multiply(waymark_linear_int4_many);
        }
    """
    assert_unit_set_as_before(MULTIPLY + both, tmp_path)


def test_without_memory_it_says_so(tmp_path: Path) -> None:
    source = """
        void *aligned_alloc(size_t alignment, size_t size) {
            return 0;
        }

        int main(void) {
            return multiply(waymark_linear_int8_many) || multiply(waymark_linear_int4_many);
        }
    """
    assert ended_with(MULTIPLY + source, tmp_path) == 0


MULTIPLY = """
    static int multiply(int (*many)(struct linear *)) {
        static unsigned short rows[64 * 64], to[40 * 70];
        static float weight[70 * 64], scales[70 * 64];
        struct linear all = {.from = rows, .weight = weight, .scales = scales, .to = to,
            .rows = 40, .outputs = 70, .inputs = 64, .given = 64, .to_stride = 70,
            .is_bfloat = 1, .threads = 1};
        return many(&all);
    }
"""
