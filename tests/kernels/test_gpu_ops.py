"""The shape alone decides which operations of a GPU are kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.attention import fused
from kernels.common.shapes import DeltaInputs, SpaceInputs
from kernels.ops import PLAIN_OPS
from tests.kernels.gated_delta.test_reference import make_case
from tests.kernels.gpu import assert_near
from tests.kernels.mamba1.test_reference import make_case as make_scan
from tests.kernels.mamba2.test_reference import make_case as make_space

gpu_ops = pytest.importorskip("kernels.gpu_ops", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu
GPU_OPS = gpu_ops.GPU_OPS


def heads(count: int, num: int, dim: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(count + num)
    return torch.randn(count, num, dim, generator=generator).to(device)


@pytest.mark.parametrize(
    ("count", "num_heads", "kv_heads", "dim", "is_kernel"),
    [(1, 4, 2, 16, True), (1, 32, 1, 16, True), (2, 4, 2, 16, False), (1, 33, 1, 16, False),
     (1, 2, 1, 272, False)],
)  # fmt: skip
def test_attention_of_one_token_is_a_kernel_where_it_fits(
    count: int,
    num_heads: int,
    kv_heads: int,
    dim: int,
    is_kernel: bool,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []
    kernel = gpu_ops.decode_attention

    def counted(
        queries: Tensor, keys: Tensor, values: Tensor, length: Tensor, *limits: Any
    ) -> Tensor:
        lengths.append(int(length))
        attended: Tensor = kernel(queries, keys, values, length, *limits)
        return attended

    monkeypatch.setattr(gpu_ops, "decode_attention", counted)
    queries = heads(count, num_heads, dim, device)
    keys, values = heads(40, kv_heads, dim, device), heads(41, kv_heads, dim, device)[1:]
    for window in (None, 7):
        found = GPU_OPS.causal_attention(queries, keys, values, 0.2, window)
        expected = fused.causal_attention(queries, keys, values, 0.2, window)
        # Scores add up `dim` products each, of normal numbers scaled by 0.2.
        assert_near(found, expected, 8 * dim + 64, values.abs().max())
    assert lengths == ([40, 40] if is_kernel else [])


@pytest.mark.parametrize(
    ("make", "sizes", "is_kernel", "step", "run"),
    [
        (make_case, (1, 2, 16, 8), True, "recurrent_gated_delta_step", "chunked_gated_delta_"),
        (make_case, (1, 2, 130, 8), False, "recurrent_gated_delta_step", "chunked_gated_delta_"),
        (make_space, (2, 8, 1, 16), True, "mamba2_step", "mamba2_run_"),
        (make_space, (2, 8, 1, 260), False, "mamba2_step", "mamba2_run_"),
        (make_scan, (40, 16), True, "mamba1_step", "mamba1_run_"),
        (make_scan, (40, 65), False, "mamba1_step", "mamba1_run_"),
    ],
)
@pytest.mark.parametrize("count", [1, 5])
def test_a_recurrence_is_a_kernel_if_it_fits(
    make: Callable[..., tuple[Tensor, ...]],
    sizes: tuple[int, ...],
    is_kernel: bool,
    step: str,
    run: str,
    count: int,
    device: torch.device,
) -> None:
    *inputs, state = (each.to(device) for each in make(count, *sizes))
    given: Any = (DeltaInputs if make is make_case else SpaceInputs)(*inputs)
    name, states = step if count == 1 else run, [state.clone() for _ in range(2)]
    found = getattr(GPU_OPS, name)(given, states[0])
    expected = getattr(PLAIN_OPS, name)(given, states[1])
    assert torch.equal(found, expected) is not is_kernel
    ulps = 2 * (max(inputs[1].shape[-1], 16) + 96)
    for ours, theirs in zip((found, states[0]), (expected, states[1]), strict=True):
        assert_near(ours, theirs, ulps, theirs.abs().max())
    assert not torch.equal(states[0], state)


def test_transposed_angles_turn_heads_like_any_others(device: torch.device) -> None:
    angles = heads(8, 1, 6, device)[:, 0]
    cosine, sine = angles.T.cos(), angles.T.sin()
    rows = heads(6, 2, 20, device)
    expected = GPU_OPS.rotate(rows, cosine.contiguous(), sine.contiguous())
    assert torch.equal(GPU_OPS.rotate(rows, cosine, sine), expected)
