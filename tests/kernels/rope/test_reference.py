"""Rotation by angles, against complex multiplication."""

from __future__ import annotations

import pytest
import torch

from kernels.rope.reference import rotate


@pytest.mark.parametrize(
    ("count", "heads", "width", "half"), [(1, 1, 2, 1), (7, 3, 10, 3), (4, 2, 8, 4)]
)
def test_pairs_turn_like_complex_numbers(count: int, heads: int, width: int, half: int) -> None:
    rows, angles = torch.randn(count, heads, width), torch.randn(count, half)
    turned = rotate(rows, angles.cos(), angles.sin())
    numbers = torch.complex(rows[..., :half], rows[..., half : 2 * half])
    numbers = numbers * torch.polar(torch.ones_like(angles), angles)[:, None]
    torch.testing.assert_close(turned[..., :half], numbers.real)
    torch.testing.assert_close(turned[..., half : 2 * half], numbers.imag)
    assert torch.equal(turned[..., 2 * half :], rows[..., 2 * half :])


def test_angle_zero_changes_no_bit() -> None:
    rows = torch.randn(3, 2, 8).bfloat16()
    ones, zeros = torch.ones(3, 4).bfloat16(), torch.zeros(3, 4).bfloat16()
    assert torch.equal(rotate(rows, ones, zeros), rows)
