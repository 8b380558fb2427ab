"""Matrices of 8-bit integers: what is rounded is rounded once, and sums are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from kernels.linear import int8
from kernels.linear.int8 import (
    DequantisedMatrix,
    Int8Format,
    IntegerMatrix,
    multiplies_integers,
    quantise_inputs,
    quantise_rows,
)
from kernels.linear.reference import Matrix
from tests.kernels.linear.test_cpu import SHAPES, parts

ROWS = 64
Make = Callable[[Tensor, Tensor, Tensor | None], Matrix]
AS_INTEGERS = pytest.param(
    partial(IntegerMatrix, rows=ROWS),
    marks=pytest.mark.skipif(
        not multiplies_integers(), reason="this processor has no exact product of 8-bit numbers"
    ),
    id="integers",
)
KINDS = [AS_INTEGERS, pytest.param(DequantisedMatrix, id="floats")]


def quantised_result(inputs: Tensor, values: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
    """The formula with integer sums, in double."""
    integers, steps = quantise_inputs(inputs)
    sums = (integers.long() @ values.long().T).double()
    result = sums * steps.double() * scales.double().flatten()
    return result if bias is None else result + bias.double()


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.skipif(not multiplies_integers(), reason="no exact product of 8-bit numbers here")
def test_a_product_of_integers_is_exact_but_for_the_scales(
    shape: tuple[int, int], dtype: torch.dtype, with_bias: bool
) -> None:
    for count in (1, 2, 63, 64, 65, 130):
        inputs, weight, bias = parts(shape, count, dtype)
        given = bias if with_bias else None
        values, scales = quantise_rows(weight)
        found = IntegerMatrix(values, scales, given, ROWS)(inputs)
        wide = quantised_result(inputs, values, scales, given)
        assert found.dtype == dtype and found.shape == wide.shape
        bound = wide.abs() * (torch.finfo(dtype).eps + 2.0**-21)
        if given is not None:  # the sum and the bias may nearly cancel
            bound += given.double().abs() * 2.0**-21
        assert ((found.double() - wide).abs() <= bound + 1e-30).all()


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_results_are_near_those_of_the_weight(shape: tuple[int, int], make: Make) -> None:
    """Each factor is off by half a step of its row at most."""
    inputs, weight, bias = parts(shape, 70, torch.float32)
    values, scales = quantise_rows(weight)
    found = make(values, scales, bias)(inputs)
    step = inputs.abs().amax(1, keepdim=True) / 127
    off = inputs.abs().sum(1, keepdim=True) * scales.T / 2 + weight.abs().sum(1) * step / 2
    off += shape[1] * scales.T * step / 4
    assert ((found - inputs @ weight.T - bias).abs() <= off * 1.001 + 1e-5).all()


def test_the_largest_numbers_keep_their_size_and_zeros_stay_zeros() -> None:
    weight = torch.tensor([[0.0, 0.0, 0.0], [-3.0, 1.5, 0.0], [1e-38, 0.0, 0.0]])
    values, scales = quantise_rows(weight)
    assert values.tolist()[:2] == [[0, 0, 0], [-127, 64, 0]]
    assert torch.isfinite(scales).all() and scales[1].item() == pytest.approx(3 / 127)
    assert (values * scales)[1, 0].item() == pytest.approx(-3.0)


@pytest.mark.parametrize("make", KINDS)
def test_a_row_of_zeros_gives_the_bias(make: Make) -> None:
    _, weight, bias = parts((13, 7), 1, torch.bfloat16)
    matrix = make(*quantise_rows(weight), bias)
    assert torch.equal(matrix(torch.zeros(3, 7, dtype=torch.bfloat16)), bias.expand(3, 13))


@pytest.mark.parametrize("make", KINDS)
def test_sums_of_the_largest_numbers_do_not_overflow(make: Make) -> None:
    weight = torch.ones(16, 17_408)
    weight[::2] = -1
    found = make(*quantise_rows(weight), None)(torch.ones(2, 17_408))
    torch.testing.assert_close(found, torch.ones(2, 17_408) @ weight.T, rtol=1e-5, atol=0)


def test_rows_are_quantised_alike_alone_and_together() -> None:
    """Maps of the same inputs are joined after they were quantised one by one."""
    _, weight, _ = parts((129, 257), 1, torch.bfloat16)
    values, scales = quantise_rows(weight)
    weight_format = Int8Format(None)
    halves = [weight_format.quantise(weight[:50]), weight_format.quantise(weight[50:])]
    joined = [torch.cat(each) for each in zip(*halves, strict=True)]
    assert torch.equal(joined[0], values) and torch.equal(joined[1], scales)


@pytest.fixture
def _asked_anew() -> Iterator[None]:
    multiplies_integers.cache_clear()
    yield
    multiplies_integers.cache_clear()


@pytest.mark.usefixtures("_asked_anew")
@pytest.mark.parametrize("error", [AttributeError, RuntimeError, NotImplementedError])
def test_a_build_without_the_product_is_told_by_trying(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> Tensor:
        raise error("no such operator")

    monkeypatch.setattr(int8, "_integer_product", missing)
    assert not multiplies_integers()


@pytest.mark.usefixtures("_asked_anew")
def test_a_product_that_overflows_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without VNNI adds pairs in 16 bits."""

    def saturated(inputs: Tensor, packed: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
        return torch.full((inputs.shape[0], scales.shape[0]), 2.0**15 - 1)

    monkeypatch.setattr(int8, "_integer_product", saturated)
    assert not multiplies_integers()
