"""Many rows: no result depends on threads, on other rows or on how many there are, and AMX and
memory are left to others as they were. That results are right is in test_native."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.linear.native import NativeBfloatFormat, NativeInt4Format, NativeInt8Format
from kernels.linear.reference import Matrix, WeightFormat
from tests.kernels.linear.test_cpu import parts
from tests.kernels.native.here import COMPILES, NEEDS_COMPILER, library
from tests.kernels.native.tiles import assert_unit_set_as_before, ended_with

pytestmark = NEEDS_COMPILER
KINDS = ("pairs", "floats", "int8", "int4")
FORMATS = pytest.mark.parametrize("kind", KINDS)
ROWS = 77


def weight_format(kind: str) -> WeightFormat:
    if kind == "int8":
        return NativeInt8Format(library())
    if kind == "int4":
        return NativeInt4Format(library())
    return NativeBfloatFormat(library(), "floats" if kind == "floats" else "pairs")


def packed(
    kind: str, outputs: int, num_inputs: int = 100, rows: int = ROWS
) -> tuple[Matrix, torch.Tensor]:
    held = weight_format(kind)
    inputs, weight, bias = parts((outputs, num_inputs), rows, torch.bfloat16)
    return held.prepack(held.quantise(weight), bias), inputs


@FORMATS
def test_bits_depend_on_no_number_of_threads(kind: str) -> None:
    matrix, inputs = packed(kind, 1500)
    expected = matrix(inputs)
    for threads in (2, 3, 4, 8):
        torch.set_num_threads(threads)
        found, few = matrix(inputs), matrix(inputs[:5])
        torch.set_num_threads(1)
        assert torch.equal(found, expected) and torch.equal(few, expected[:5])


@FORMATS
@pytest.mark.parametrize("number", [7.0, float("nan"), float("inf")])
def test_bits_depend_on_no_other_row(kind: str, number: float) -> None:
    matrix, inputs = packed(kind, 70)
    expected = matrix(inputs)
    others = inputs.clone()
    others[::2] = number
    found = matrix(others)
    assert torch.equal(found[1::2], expected[1::2])
    assert bool(found[::2].isfinite().any()) == (number == 7)
    for count in (1, 4, 8, 9, 33, 64):
        assert torch.equal(matrix(inputs[-count:]), expected[-count:])


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    outputs=st.integers(1, 200),
    num_inputs=st.integers(1, 1700),
    rows=st.sampled_from((1, 2, 5, 6, 7, 9, 11, 12, 13, 31, 32, 33, 200, 1025)),
    data=st.data(),
)
def test_rows_in_one_call_are_those_of_many_calls(
    kind: str, outputs: int, num_inputs: int, rows: int, data: st.DataObject
) -> None:
    matrix, inputs = packed(kind, outputs, num_inputs, rows)
    together = matrix(inputs)
    for _ in range(3):
        first = data.draw(st.integers(0, rows - 1))
        end = data.draw(st.integers(first + 1, rows))
        assert torch.equal(matrix(inputs[first:end]), together[first:end])


def test_others_find_the_matrix_unit_set_as_they_left_it(tmp_path: Path) -> None:
    both = """
        static int compute(void) {
            return multiply(waymark_linear_int8_many, 40) &&
                   multiply(waymark_linear_int4_many, 40) &&
                   multiply(waymark_linear_bfloat_many, 40);
        }
    """
    assert_unit_set_as_before(MULTIPLY + both, tmp_path)


@COMPILES
def test_without_memory_it_says_so(tmp_path: Path) -> None:
    source = """
        void *aligned_alloc(size_t alignment, size_t size) {
            return 0;
        }

        int main(void) {
            return multiply(waymark_linear_int8_many, 40) ||
                   multiply(waymark_linear_int8_many, 3) ||
                   multiply(waymark_linear_int4_many, 40) ||
                   multiply(waymark_linear_int4_many, 3) ||
                   multiply(waymark_linear_bfloat_many, 40);
        }
    """
    assert ended_with(MULTIPLY + source, tmp_path) == 0


MULTIPLY = """
    static int multiply(int (*many)(struct linear *), int rows_of_it) {
        static unsigned short rows[64 * 64], to[40 * 70];
        static float weight[70 * 64], scales[70 * 64];
        struct linear all = {.from = rows, .weight = weight, .scales = scales, .to = to,
            .rows = rows_of_it, .outputs = 70, .inputs = 64, .given = 64, .to_stride = 70,
            .is_bfloat = 1, .threads = 1};
        return many(&all);
    }
"""
