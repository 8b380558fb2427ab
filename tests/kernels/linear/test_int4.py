"""Matrices of 4-bit integers: both ways of multiplying by them are the product of one weight."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.linear import int4
from kernels.linear.int4 import (
    FEW_ROWS,
    GROUP,
    DequantisingInt4Matrix,
    Int4Format,
    PackedInt4Matrix,
    dequantise_groups,
    halve,
    lanes,
    multiplies_int4,
    quantise_groups,
    unhalve,
)
from kernels.linear.reference import Matrix
from tests.kernels.linear.test_cpu import SHAPES, parts

Make = Callable[[Tensor, Tensor, Tensor | None], Matrix]
PACKED = pytest.param(
    PackedInt4Matrix,
    marks=pytest.mark.skipif(not multiplies_int4(), reason="torch's int4 layout is not known here"),
    id="packed",
)
KINDS = [PACKED, pytest.param(DequantisingInt4Matrix, id="flat")]


def kept(weight: Tensor) -> tuple[Tensor, Tensor]:
    values, scales = Int4Format(packed=False).quantise(weight)
    return values, scales


def weight_of(halves: Tensor, scales: Tensor, num_inputs: int) -> Tensor:
    """The weight that the int4 values stand for, float32 [outputs, inputs]."""
    return dequantise_groups(unhalve(halves), scales)[:, :num_inputs]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("shape", [*SHAPES, (200, 96)])
def test_products_are_those_of_the_quantised_weight(
    shape: tuple[int, int], with_bias: bool, make: Make
) -> None:
    """Within the rounding of the weight, of sums in float32 and of the result to bfloat16."""
    for count in (1, 2, FEW_ROWS, FEW_ROWS + 1, 130):
        inputs, weight, bias = parts(shape, count, torch.bfloat16)
        given = bias if with_bias else None
        halves, scales = kept(weight)
        found = make(halves, scales, given)(inputs)
        exact = weight_of(halves, scales, shape[1]).double()
        wide = inputs.double() @ exact.T
        size = inputs.double().abs() @ exact.abs().T
        if given is not None:
            wide, size = wide + given.double(), size + given.double().abs()
        assert found.dtype == torch.bfloat16 and found.shape == wide.shape
        assert ((found.double() - wide).abs() <= size * 2.0**-7).all()


@pytest.mark.skipif(not multiplies_int4(), reason="torch's int4 layout is not known here")
def test_many_rows_and_few_rows_multiply_by_the_same_weight() -> None:
    """Unit vectors as inputs give the weight itself: once by int4 values, once through floats."""
    _, weight, _ = parts((200, 96), 1, torch.bfloat16)
    matrix = PackedInt4Matrix(*kept(weight), None)
    units = torch.eye(96, dtype=torch.bfloat16)
    by_integers = torch.cat([matrix(units[:48]), matrix(units[48:])])
    through_floats = matrix(units)
    assert 96 > FEW_ROWS >= 48
    torch.testing.assert_close(by_integers, through_floats, rtol=2.0**-7, atol=2.0**-9)


def test_no_number_is_off_by_more_than_half_a_step() -> None:
    _, weight, _ = parts((129, 256), 1, torch.float32)
    values, scales = quantise_groups(weight)
    groups = weight.unflatten(1, (-1, GROUP))
    step = (groups.amax(2) - groups.amin(2)) / 15
    # The step and the offset are rounded to 8 bits: up to 15 of them are off by their rounding.
    off = (dequantise_groups(values, scales) - weight).abs().unflatten(1, (-1, GROUP)).amax(2)
    assert (off <= step * (0.5 + 15 * 2.0**-8)).all()


@pytest.mark.parametrize("number", [0.0, 1.0, -0.3, 1e-30, 3e38])
def test_a_group_of_one_number_is_that_number(number: float) -> None:
    weight = torch.full((3, GROUP), number).bfloat16().float()
    values, scales = quantise_groups(weight)
    torch.testing.assert_close(dequantise_groups(values, scales), weight, rtol=2.0**-8, atol=0)


def test_numbers_on_the_scale_come_back_exactly() -> None:
    """Sixteen levels a group that bfloat16 can spell: nothing to round."""
    levels = torch.arange(GROUP).remainder(16).float()
    weight = torch.stack([(levels - 8) * 0.25, (levels - 8) * 2 + 16, -(levels - 8)])
    values, scales = quantise_groups(weight)
    assert torch.equal(dequantise_groups(values, scales), weight)


def test_halving_is_undone() -> None:
    values = torch.arange(256).view(2, 128).remainder(16).to(torch.uint8)
    assert torch.equal(unhalve(halve(values)), values)


@pytest.mark.parametrize("with_zeros", [True, False])
@pytest.mark.parametrize("group", [32, 128])
def test_integers_of_others_are_taken_as_they_are(group: int, with_zeros: bool) -> None:
    """Only their scales are rounded, to bfloat16."""
    generator = torch.Generator().manual_seed(group)
    values = torch.randint(-8, 8, (10, 256), generator=generator).to(torch.int8)
    scales = torch.rand(10, 256 // group, generator=generator) + 0.1
    zeros = torch.randint(-8, 8, scales.shape, generator=generator).to(torch.int8)
    held = Int4Format(packed=False).repack(values, scales, zeros if with_zeros else None, group)
    assert held is not None
    spread = scales.repeat_interleave(group, 1)
    less = zeros.repeat_interleave(group, 1) if with_zeros else 0
    largest = 15 * spread * 2.0**-8
    halves, pairs = held
    assert ((weight_of(halves, pairs, 256) - (values - less) * spread).abs() <= largest).all()


@pytest.mark.parametrize(("group", "inputs"), [(16, 64), (48, 96), (128, 200)])
def test_groups_that_can_not_be_cut_are_not_taken(group: int, inputs: int) -> None:
    values, scales = torch.zeros(2, inputs, dtype=torch.int8), torch.ones(2, -(-inputs // group))
    assert Int4Format(packed=False).repack(values, scales, None, group) is None


def test_columns_are_filled_up_to_whole_groups_with_what_changes_nothing() -> None:
    """A weight of 40 inputs: the group that is cut short has a scale of its own numbers and 0."""
    _, weight, _ = parts((8, 40), 1, torch.float32)
    whole = F.pad(weight, (0, 24))
    assert all(
        torch.equal(found, expected)
        for found, expected in zip(kept(weight), kept(whole), strict=True)
    )


@pytest.mark.parametrize("error", [AttributeError, RuntimeError, NotImplementedError])
def test_a_build_without_the_product_is_told_by_trying(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: Tensor) -> Tensor:
        raise error("no such operator")

    lanes.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(int4, "_pack", missing)
        assert not multiplies_int4()
    lanes.cache_clear()
