"""Every format of a matrix: rows are independent, bits depend on shapes alone."""

from __future__ import annotations

import pytest
import torch

from kernels.linear.cpu import PackedFormat, can_pack
from kernels.linear.int4 import FEW_ROWS, Int4Format, multiplies_int4
from kernels.linear.int8 import Int8Format, multiplies_integers
from kernels.linear.native import NativeBfloatFormat, NativeInt4Format, NativeInt8Format
from kernels.linear.reference import PlainFormat, WeightFormat
from kernels.native.library import compiled
from tests.kernels.linear.test_cpu import parts

ROWS = 64


def here(weight_format: WeightFormat, title: str, there: bool) -> object:
    """A format to test, skipped on a processor or a build of torch that has no product for it."""
    reason = "this processor, or this build of torch, has no product for it"
    return pytest.param(weight_format, id=title, marks=pytest.mark.skipif(not there, reason=reason))


FORMATS = [
    here(PlainFormat(), "plain", True),
    here(PackedFormat(ROWS), "packed", can_pack(torch.bfloat16)),
    here(PackedFormat(None), "packed for many rows", can_pack(torch.bfloat16)),
    here(Int8Format(ROWS), "int8", multiplies_integers()),
    here(Int8Format(None), "int8 in floats", True),
    here(Int4Format(True), "int4", multiplies_int4()),
    here(Int4Format(False), "int4 in floats", True),
]


if (found := compiled()) is not None:
    FORMATS += [
        here(kind(found), f"compiled {title}", True)
        for kind, title in (
            (NativeBfloatFormat, "bfloat16"),
            (NativeInt8Format, "int8"),
            (NativeInt4Format, "int4"),
        )
    ]


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("count", [1, 5, 12, 63, 130])
def test_no_row_changes_another(weight_format: WeightFormat, count: int) -> None:
    """A later token with huge numbers: scales of whole tensors would flatten the others."""
    inputs, weight, _ = parts((96, 64), count + 1, torch.bfloat16)
    matrix = weight_format.prepack(weight_format.quantise(weight), None)
    loud = inputs.clone()
    loud[-1] *= 1e4
    assert torch.equal(matrix(inputs)[:-1], matrix(loud)[:-1])


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("count", [5, FEW_ROWS, 70])
def test_a_view_and_a_moved_copy_give_the_same_bits(
    weight_format: WeightFormat, count: int
) -> None:
    inputs, weight, bias = parts((40, 24), count, torch.bfloat16)
    matrix = weight_format.prepack(weight_format.quantise(weight), bias)
    expected = matrix(inputs)
    wide = torch.cat((inputs, torch.full_like(inputs, float("nan"))), dim=1)
    assert torch.equal(matrix(wide[:, :24]), expected)
    moved = torch.empty(inputs.numel() + 3, dtype=torch.bfloat16)[3:].view_as(inputs)
    assert torch.equal(matrix(moved.copy_(inputs)), expected)
    assert matrix(inputs[:0]).shape == (0, 40)


@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("shape", [(64, 32), (100, 80), (129, 257)])
def test_a_form_knows_its_bytes(weight_format: WeightFormat, shape: tuple[int, int]) -> None:
    _, weight, _ = parts(shape, 1, torch.bfloat16)
    found = weight_format.prepack(weight_format.quantise(weight), None).num_bytes
    assert found == weight_format.num_bytes(shape, torch.bfloat16)
