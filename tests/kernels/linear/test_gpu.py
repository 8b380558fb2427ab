"""Matrices of 8 and 4 bits on a GPU against the dequantised product in float64.

What is multiplied is what the formats keep of a weight.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.linear.int4 import GROUP, Int4Format, halve
from kernels.linear.int8 import Int8Format
from tests.kernels.gpu import assert_near, guarded_memory, strided

gpu = pytest.importorskip("kernels.linear.gpu", reason="Triton is published for Linux alone")
formats = pytest.importorskip("kernels.linear.gpu_formats")
pytestmark = pytest.mark.gpu

DTYPES = [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16]


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


def make_int4(num_outputs: int, num_inputs: int) -> tuple[Tensor, Tensor]:
    """Numbers of 4 bits, and a scale and an offset for each group."""
    generator = torch.Generator().manual_seed(num_outputs)
    codes = torch.randint(0, 16, (num_outputs, num_inputs), generator=generator)
    scales = torch.randn(num_outputs, num_inputs // GROUP, 2, generator=generator)
    return codes.to(torch.uint8), scales.bfloat16()


def terms(codes: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """(code - 8) * scale and the offset, in float64, whose sum is the weight."""
    scale, offset = scales.double().repeat_interleave(GROUP, 1).unbind(2)
    return (codes.double() - 8) * scale, offset


def packed(case: tuple[Tensor, Tensor], device: torch.device) -> Any:
    codes, scales = case
    if codes.dtype == torch.int8:
        return gpu.pack_int8(codes.to(device), scales.to(device))
    return gpu.pack_int4(halve(codes).to(device), scales.to(device))


def assert_product(found: Tensor, rows: Tensor, *weights: Tensor) -> None:
    """Each of the products that are added up may round their sum by half an ulp, and no more."""
    expected = sum((rows @ weight.T for weight in weights), torch.tensor(0.0))
    magnitude = sum((rows.abs() @ weight.abs().T for weight in weights), torch.tensor(0.0))
    assert_near(found, expected, len(weights) * rows.shape[1] / 2 + 4, magnitude)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "count", "num_outputs", "num_inputs"),
    [
        *(
            ("int8", *size)
            for size in ((1, 5, 256), (2, 4, 1), (3, 3, 300), (2, 3, 513), (3, 3, 2100))
        ),
        *(
            ("int4", *size)
            for size in ((1, 5, 256), (2, 4, 32), (3, 3, 96), (2, 3, 320), (3, 3, 2080))
        ),
    ],
)
def test_products_of_rows(
    name: str,
    count: int,
    num_outputs: int,
    num_inputs: int,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    rows, wide = make_rows(count, num_inputs, dtype, device)
    case = (make_int8 if name == "int8" else make_int4)(num_outputs, num_inputs)
    if name == "int8":
        weights: tuple[Tensor, ...] = (case[0].double() * case[1].double()[:, None],)
    else:
        weights = terms(*case)
    held = packed(case, device)
    with guarded_memory():
        found = held.times(held.aligned(rows))
    assert found.dtype == dtype
    assert_product(found, wide, *weights)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_a_weight_comes_back_whole(groups: int, dtype: torch.dtype, device: torch.device) -> None:
    case = make_int4(3, GROUP * groups)
    with guarded_memory():
        found = gpu.dequantise(packed(case, device), dtype)
    product, offset = terms(*case)
    assert_near(found, product + offset, 1, product.abs() + offset.abs())
    weight, scale = make_int8(3, 7 * groups)
    found = packed((weight, scale), device).floats(slice(0, 3), dtype)[:, : 7 * groups]
    assert found.dtype == dtype
    assert_near(found, weight.double() * scale.double()[:, None], 0.5)


@pytest.mark.parametrize("make", [make_int8, make_int4])
def test_a_row_does_not_depend_on_the_rows_beside_it(make: Any, device: torch.device) -> None:
    weight = packed(make(4, 320), device)
    rows, _ = make_rows(gpu.MAX_ROWS, 320, torch.bfloat16, device)
    whole = gpu.few_rows(rows, weight)
    for row in range(gpu.MAX_ROWS):
        assert torch.equal(gpu.few_rows(rows[row : row + 1], weight), whole[row : row + 1])


def test_more_rows_are_refused(device: torch.device) -> None:
    weight = packed(make_int8(16, 32), device)
    with pytest.raises(ValueError, match=f"{gpu.MAX_ROWS} rows"):
        gpu.few_rows(torch.ones(gpu.MAX_ROWS + 1, 32, device=device), weight)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num_rows", [1, formats.MAX_ROWS, formats.MAX_ROWS + 3])
@pytest.mark.parametrize("num_inputs", [70, 96])
@pytest.mark.parametrize("name", ["int8", "int4"])
def test_a_matrix_is_the_same_integers_as_everywhere(
    name: str,
    num_inputs: int,
    num_rows: int,
    bias: bool,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(formats, "_FLOATS", 4 * num_inputs)  # some blocks of outputs
    eight, weight_format = (
        name == "int8",
        formats.GpuInt8Format() if name == "int8" else formats.GpuInt4Format(),
    )
    weight = torch.randn(13, num_inputs, generator=torch.Generator().manual_seed(1)).to(device)
    offset = torch.randn(13, generator=torch.Generator().manual_seed(2)) if bias else None
    offset = offset.to(device) if offset is not None else None
    kept = weight_format.quantise(weight)
    assert all(part.device.type == device.type for part in kept)
    matrix = weight_format.prepack(kept, offset)
    plain = Int8Format(None) if eight else Int4Format(packed=False)
    expected = plain.prepack(kept, offset)
    rows, _ = make_rows(num_rows, num_inputs, torch.float32, device)
    found = matrix(rows)
    assert torch.allclose(found, expected(rows), rtol=1e-5, atol=1e-4)
    wide = torch.full((num_rows, 26), float("nan"), device=device)
    matrix.into(wide[:, 5:18], rows)
    assert torch.equal(wide[:, 5:18], found) and int(wide.isnan().sum()) == 13 * num_rows
    everywhere = plain.quantise(weight.cpu())
    assert all(torch.equal(part.cpu(), other) for part, other in zip(kept, everywhere, strict=True))
    assert (
        matrix.num_bytes
        == weight_format.num_bytes((13, num_inputs), torch.bfloat16) + 13 * 4 * bias
    )


def test_products_that_work_are_used(device: torch.device) -> None:
    formats.multiplies_integers.cache_clear()
    assert formats.multiplies_integers(device)


@pytest.mark.parametrize(
    ("product", "words"), [("raises", "no such instruction"), ("is wrong", "int8, 1 rows")]
)
def test_products_that_do_not_work_are_not_and_the_log_says_why_once(
    product: str,
    words: str,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(inputs: Tensor, weight: object) -> Tensor:
        if product == "raises":
            raise RuntimeError("no such instruction")
        return torch.ones(len(inputs), 5, dtype=inputs.dtype, device=inputs.device)

    monkeypatch.setattr(gpu, "few_rows", broken)
    formats.multiplies_integers.cache_clear()
    assert [formats.multiplies_integers(device) for _ in range(2)] == [False, False]
    formats.multiplies_integers.cache_clear()
    assert len(caplog.records) == 1 and words in caplog.text
