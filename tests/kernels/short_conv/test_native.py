"""The compiled gated short convolution: the same bits whatever else shares a call."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.native_ops import native_ops
from tests.kernels.native.here import NEEDS_COMPILER, library

pytestmark = NEEDS_COMPILER


def run(pieces: list[Tensor], weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    ops, channels = native_ops(library()), weight.shape[1]
    tail = torch.zeros(weight.shape[0] - 1, channels, dtype=pieces[0].dtype)
    return torch.cat([ops.short_conv(each, tail, weight, bias) for each in pieces]), tail


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("channels", "taps"), [(64, 3), (37, 3), (37, 4), (5, 2)])
def test_no_cut_changes_a_bit(channels: int, taps: int, dtype: torch.dtype) -> None:
    """Steps, short runs and long ones: a token's numbers are its own and those before it."""
    generator = torch.Generator().manual_seed(channels)
    wide = torch.randn(130, 3 * channels + 7, generator=generator).to(dtype)
    projected = wide[:, : 3 * channels]
    weight, bias = torch.randn(taps + 1, channels, generator=generator).split([taps, 1])
    whole, end = run([projected], weight, bias[0])
    for size in (1, 2, 7, 64):
        found, tail = run(list(projected.split(size)), weight, bias[0])
        assert torch.equal(found, whole) and torch.equal(tail, end)
