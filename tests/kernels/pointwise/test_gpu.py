"""Gated units on a GPU against the plain ones in float64: odd rows, strides, poison, extremes."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.kernels.gpu import assert_near, guarded_memory, strided

gpu = pytest.importorskip("kernels.pointwise.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu

DTYPES = [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("multiplier", [1.0, 0.5])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1023), (2, 2500), (0, 8)])
def test_gates_open(
    shape: tuple[int, int], multiplier: float, dtype: torch.dtype, device: torch.device
) -> None:
    generator = torch.Generator().manual_seed(shape[1])
    gate, up = (4 * torch.randn(2, *shape, generator=generator)).to(dtype)
    gate[:, 0] = -200  # its exponential overflows
    parts = [strided(each.to(device)) for each in (gate, up)]
    with guarded_memory():
        found, smooth = gpu.swiglu(*parts, multiplier), gpu.geglu(*parts)
    assert found.dtype == smooth.dtype == dtype
    # An exponential of |x| < 32 and a quotient; the cube of geglu's exponent adds its size.
    wide = gate.double() * multiplier
    assert_near(found, F.silu(wide) * up.double(), 64, up.double().abs() * (1 + wide.abs()))
    expected = F.gelu(gate.double(), approximate="tanh") * up.double()
    assert_near(smooth, expected, 64, up.double().abs() * (1 + gate.double().abs()))
    with guarded_memory():
        clamped = gpu.clamped_swiglu(*parts, 1.702, 3.0)
    below, within = gate.double().clamp(max=3), up.double().clamp(-3, 3) + 1
    expected = below * torch.sigmoid(1.702 * below) * within
    assert clamped.dtype == dtype
    assert_near(clamped, expected, 64, within.abs() * (1 + below.abs()))
