"""Rotation on a GPU against the plain one: heads, strides, norms, poison."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.rms_norm.reference import rms_norm
from kernels.rope import reference
from tests.kernels.gpu import assert_near, guarded_memory, strided

gpu = pytest.importorskip("kernels.rope.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu

DTYPES = [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16]
# Two products and their sum; with a norm, its squares added in a tree and a GPU's rsqrt as well.
ULPS, NORM_ULPS = 4, 24


def make_heads(
    count: int, heads: int, dim: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    generator = torch.Generator().manual_seed(count + heads)
    return torch.randn(count, heads, dim, generator=generator).to(dtype).to(device)


def make_angles(
    count: int, half: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(half)
    angles = 7 * torch.randn(count, half, generator=generator)
    return angles.cos().to(dtype).to(device), angles.sin().to(dtype).to(device)


def turned(heads: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
    """The float32 reference, and the magnitudes of what each number adds up."""
    wide = heads.float(), cosine.float(), sine.float()
    half = cosine.shape[-1]
    added = reference.rotate(wide[0].abs(), wide[1].abs(), wide[2].abs())
    added[..., :half] += 2 * (wide[0][..., half : 2 * half] * wide[2][:, None]).abs()
    return reference.rotate(*wide), added


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "heads", "dim", "half"),
    [(1, 24, 256, 32), (2, 3, 64, 32), (63, 1, 10, 3), (65, 6, 8, 4), (513, 1, 16, 4)],
)
def test_heads_turn(
    count: int, heads: int, dim: int, half: int, dtype: torch.dtype, device: torch.device
) -> None:
    rows = make_heads(count, heads, dim, dtype, device)
    angles = make_angles(count, half, dtype, device)
    expected, added = turned(rows, *angles)
    with guarded_memory():
        found = gpu.rotate(strided(rows), *(strided(each, 3) for each in angles))
    assert_near(found, expected, ULPS, added)
    assert torch.equal(found[..., 2 * half :], rows[..., 2 * half :])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "heads", "dim", "half"), [(1, 24, 256, 32), (9, 3, 10, 3), (65, 6, 8, 4)]
)
def test_heads_are_normalised_and_turn(
    count: int, heads: int, dim: int, half: int, dtype: torch.dtype, device: torch.device
) -> None:
    rows = make_heads(count, heads, dim, dtype, device)
    scale = 1 + 0.2 * torch.randn(dim, generator=torch.Generator().manual_seed(dim)).to(device)
    angles = make_angles(count, half, dtype, device)
    expected, added = turned(rms_norm(rows.float(), scale, 1e-6), *angles)
    with guarded_memory():
        found = gpu.norm_rotate(strided(rows), scale, 1e-6, *(strided(each, 3) for each in angles))
    assert found.dtype == dtype
    assert_near(found, expected, NORM_ULPS, added)
