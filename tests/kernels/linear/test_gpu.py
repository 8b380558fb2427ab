"""Matrices of 8 and 4 bits on a GPU against the dequantised product in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.kernels.gpu import assert_near, guarded_memory, strided

gpu = pytest.importorskip("kernels.linear.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu

DTYPES = [torch.float32, torch.bfloat16]


def make_rows(
    count: int, width: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Rows as a view in poison, and the same numbers in float64."""
    rows = torch.randn(count, width, generator=torch.Generator().manual_seed(count)).to(dtype)
    return strided(rows.to(device)), rows.double()


def make_int8(num_outputs: int, num_inputs: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(num_outputs)
    weight = torch.randint(-127, 128, (num_outputs, num_inputs), generator=generator)
    return weight.to(torch.int8), 0.01 + torch.rand(num_outputs, generator=generator)


def make_int4(
    num_outputs: int, num_inputs: int, group: int, zeros: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes, scales and zeros."""
    generator = torch.Generator().manual_seed(num_outputs)
    size = num_outputs, num_inputs // group
    codes = torch.randint(0, 16, (num_outputs, num_inputs), generator=generator)
    zero = torch.randint(0, 16, size, generator=generator) if zeros else None
    return codes.to(torch.uint8), 0.01 + torch.rand(size, generator=generator), zero


def dequantised(codes: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """(code - zero) * scale in float64, group by group; zeros are 8 where there are none."""
    zero = torch.full_like(scale, 8) if zero is None else zero
    group = codes.shape[1] // scale.shape[1]
    wide = (each.double().repeat_interleave(group, 1) for each in (scale, zero))
    scales, zeros = wide
    return (codes.double() - zeros) * scales


def packed(case: tuple[Tensor, Tensor, Tensor | None], device: torch.device) -> object:
    return gpu.pack_int4(*(each if each is None else each.to(device) for each in case))


def assert_product(found: Tensor, rows: Tensor, weight: Tensor) -> None:
    """Each of the products that are added up may round their sum by half an ulp, and no more."""
    magnitude = rows.abs() @ weight.abs().T
    assert_near(found, rows @ weight.T, rows.shape[1] / 2 + 4, magnitude)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "num_outputs", "num_inputs"), [(1, 33, 256), (2, 16, 1), (7, 5, 300), (16, 18, 513)]
)
def test_int8_rows(
    count: int, num_outputs: int, num_inputs: int, dtype: torch.dtype, device: torch.device
) -> None:
    weight, scale = make_int8(num_outputs, num_inputs)
    rows, wide = make_rows(count, num_inputs, dtype, device)
    with guarded_memory():
        found = gpu.int8_linear(rows, weight.to(device), scale.to(device))
    assert found.dtype == dtype
    assert_product(found, wide, weight.double() * scale.double()[:, None])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("count", "num_outputs", "num_inputs", "group"),
    [(1, 33, 256, 128), (2, 16, 16, 16), (7, 5, 96, 32), (16, 18, 320, 64)],
)
def test_int4_rows(
    count: int,
    num_outputs: int,
    num_inputs: int,
    group: int,
    zeros: bool,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    case = make_int4(num_outputs, num_inputs, group, zeros)
    rows, wide = make_rows(count, num_inputs, dtype, device)
    with guarded_memory():
        found = gpu.int4_linear(rows, packed(case, device))
    assert found.dtype == dtype
    assert_product(found, wide, dequantised(*case))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_an_int4_weight_comes_back_whole(
    groups: int, zeros: bool, dtype: torch.dtype, device: torch.device
) -> None:
    case = make_int4(18, 32 * groups, 32, zeros)
    weight = packed(case, device)
    with guarded_memory():
        found = gpu.dequantise_int4(weight, dtype)
    assert_near(found, dequantised(*case), 0.5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_int8_weight_comes_back_whole(dtype: torch.dtype, device: torch.device) -> None:
    weight, scale = make_int8(18, 35)
    found = gpu.dequantise_int8(weight.to(device), scale.to(device), dtype)
    assert found.dtype == dtype
    assert_near(found, weight.double() * scale.double()[:, None], 0.5)


def test_a_row_does_not_depend_on_the_rows_beside_it(device: torch.device) -> None:
    weight, scale = (each.to(device) for each in make_int8(20, 300))
    four = packed(make_int4(20, 96, 32, True), device)
    eight_rows, _ = make_rows(16, 300, torch.bfloat16, device)
    four_rows, _ = make_rows(16, 96, torch.bfloat16, device)
    whole = gpu.int8_linear(eight_rows, weight, scale), gpu.int4_linear(four_rows, four)
    for row in (0, 9, 15):
        here = slice(row, row + 1)
        assert torch.equal(gpu.int8_linear(eight_rows[here], weight, scale), whole[0][here])
        assert torch.equal(gpu.int4_linear(four_rows[here], four), whole[1][here])


@pytest.mark.parametrize(("num_inputs", "groups"), [(48, 1), (16, 2), (65, 2)])
def test_groups_that_no_tile_holds_are_refused(num_inputs: int, groups: int) -> None:
    codes = torch.zeros(2, num_inputs, dtype=torch.uint8)
    with pytest.raises(ValueError, match="power of two"):
        gpu.pack_int4(codes, torch.ones(2, groups))


def test_more_rows_than_a_tile_are_refused(device: torch.device) -> None:
    weight, scale = (each.to(device) for each in make_int8(16, 32))
    with pytest.raises(ValueError, match="16 rows"):
        gpu.int8_linear(torch.ones(17, 32, device=device), weight, scale)
