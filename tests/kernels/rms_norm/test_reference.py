"""RMS norms against their formula in float64."""

from __future__ import annotations

import pytest
import torch

from kernels.rms_norm.reference import gated_rms_norm, rms_norm


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 5, 16)])
def test_rows_are_divided_by_their_root_mean_square(shape: tuple[int, ...]) -> None:
    rows, scale = torch.randn(shape), torch.randn(shape[-1])
    wide = rows.double()
    expected = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt() * scale.double()
    torch.testing.assert_close(rms_norm(rows, scale, 1e-6).double(), expected, rtol=1e-5, atol=1e-6)


def test_epsilon_keeps_a_zero_row_at_zero() -> None:
    assert rms_norm(torch.zeros(2, 4), torch.ones(4), 1e-6).eq(0).all()


def test_bfloat16_is_rounded_once() -> None:
    rows, scale = torch.randn(50, 64).bfloat16(), torch.randn(64)
    exact = rms_norm(rows.float(), scale, 1e-6)
    assert torch.equal(rms_norm(rows, scale, 1e-6), exact.bfloat16())


def test_the_gate_multiplies_after_the_norm() -> None:
    rows, gate, scale = torch.randn(3, 5), torch.randn(3, 5), torch.randn(5)
    expected = rms_norm(rows, scale, 1e-6) * gate * torch.sigmoid(gate)
    found = gated_rms_norm(rows, scale, gate, 1e-6, torch.float32)
    torch.testing.assert_close(found, expected)
    assert gated_rms_norm(rows, scale, gate, 1e-6, torch.bfloat16).dtype == torch.bfloat16
