"""RMS norms on a GPU against the plain ones: odd rows, strides, poison, both types."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.rms_norm import reference
from tests.kernels.gpu import assert_near, guarded_memory, strided

gpu = pytest.importorskip("kernels.rms_norm.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu

EPSILON = 1e-6
DTYPES = [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16]
# One row or head, odd ones, a whole block more or less; widths that are no power of two.
SHAPES = [(1, 1), (1, 2560), (63, 7), (513, 24), (5, 24, 256), (65, 3, 72), (2, 3, 4, 16)]


def make_rows(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """Inputs, residual or gate; and a zero-centred scale, as 1 + w."""
    generator = torch.Generator().manual_seed(shape[0])
    rows = [(3 * torch.randn(shape, generator=generator)).to(dtype) for _ in range(2)]
    rows.append(1.0 + 0.2 * torch.randn(shape[-1], generator=generator))
    return [each.to(device) for each in rows]


def ulps(width: int) -> float:
    """The bound of both sides' error.

    A sum of squares in a tree errs by an ulp for each level and half of that shows under the root;
    a GPU's rsqrt, sigmoid and its exponential of |x| < 16 give away a few more.
    """
    return width.bit_length() + 16


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_normalised(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    rows, _, scale = make_rows(shape, dtype, device)
    with guarded_memory():
        found = gpu.rms_norm(strided(rows), scale, EPSILON)
    assert found.dtype == dtype
    assert found.is_contiguous()
    assert_near(found, reference.rms_norm(rows.float(), scale, EPSILON), ulps(shape[-1]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("multiplier", [1.0, 0.5])
@pytest.mark.parametrize("shape", [(1, 2560), (63, 7), (65, 3, 72)])
def test_a_residual_is_added_first(
    shape: tuple[int, ...], multiplier: float, dtype: torch.dtype, device: torch.device
) -> None:
    rows, residual, scale = make_rows(shape, dtype, device)
    _, total = reference.add_rms_norm(multiplier * rows, residual, scale, EPSILON)
    with guarded_memory():
        found, added = gpu.add_rms_norm(
            strided(rows), strided(residual, 3), scale, EPSILON, multiplier
        )
    assert torch.equal(added, total)
    assert_near(found, reference.rms_norm(total.float(), scale, EPSILON), ulps(shape[-1]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 16, 128), (65, 3, 72), (64, 128)])
def test_the_gate_multiplies_after_the_norm(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    rows, gate, scale = make_rows(shape, torch.float32, device)
    gate = gate.to(dtype)
    with guarded_memory():
        found = gpu.gated_rms_norm(strided(rows), scale, strided(gate), EPSILON, dtype)
    assert found.dtype == dtype
    expected = reference.gated_rms_norm(rows, scale, gate, EPSILON, torch.float32)
    assert_near(found, expected, ulps(shape[-1]))


def test_a_row_does_not_depend_on_the_rows_beside_it(device: torch.device) -> None:
    rows, _, scale = make_rows((130, 96), torch.float32, device)
    whole = gpu.rms_norm(rows, scale, EPSILON)
    for first, last in [(0, 1), (17, 18), (3, 70)]:
        assert torch.equal(gpu.rms_norm(rows[first:last], scale, EPSILON), whole[first:last])


def test_no_rows_are_no_work(device: torch.device) -> None:
    assert gpu.rms_norm(torch.ones(0, 8, device=device), torch.ones(8), EPSILON).shape == (0, 8)


def test_the_reference_adds_in_the_type_of_its_inputs() -> None:
    rows, residual, scale = make_rows((9, 32), torch.bfloat16, torch.device("cpu"))
    normalised, total = reference.add_rms_norm(rows, residual, scale, EPSILON)
    assert torch.equal(total, (rows.float() + residual.float()).bfloat16())
    assert torch.equal(normalised, reference.rms_norm(total, scale, EPSILON))
