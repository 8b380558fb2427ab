"""The selective scan of Mamba-1 in plain torch, against its equation in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kernels.common.shapes import SpaceInputs
from kernels.mamba1.reference import mamba1_run_, mamba1_step
from tests.kernels.poison import poisoned_memory

Case = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def make_case(
    count: int,
    channels: int = 6,
    state_dim: int = 4,
    strongest: float = 1.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Case:
    """Inputs, B, C, steps, rate, skip, state; the first three are views of wider rows."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def view(width: int) -> Tensor:
        rows = torch.full((count, width + 5), float("nan"), dtype=dtype)
        rows[:, 2 : 2 + width] = normal(count, width)
        return rows[:, 2 : 2 + width]

    return (
        view(channels),
        view(state_dim),
        view(state_dim),
        torch.rand(count, channels, generator=generator),
        -strongest * torch.rand(state_dim, channels, generator=generator),
        normal(channels),
        normal(state_dim, channels),
    )


def equation(case: Case) -> tuple[Tensor, Tensor]:
    """s <- e^(d A) s + d x B;  y = C s + D x, in float64, channel by channel."""
    inputs, b, c, steps, rate, skip, start = (each.double() for each in case)
    outputs, states = torch.zeros_like(inputs), start.clone()
    for channel in range(inputs.shape[1]):
        state = states[:, channel]
        for token in range(inputs.shape[0]):
            step, given = steps[token, channel], inputs[token, channel]
            state = (step * rate[:, channel]).exp() * state + step * given * b[token]
            outputs[token, channel] = state @ c[token] + skip[channel] * given
        states[:, channel] = state
    return outputs, states


def run(case: Case) -> tuple[Tensor, Tensor]:
    *inputs, state = case
    state = state.clone()
    return mamba1_run_(SpaceInputs(*inputs), state), state


def part(case: Case, rows: slice, state: Tensor) -> Case:
    inputs, b, c, steps, rate, skip, _ = case
    return inputs[rows], b[rows], c[rows], steps[rows], rate, skip, state


def assert_near(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-4, atol=2e-5)


@settings(max_examples=25)
@given(
    count=st.integers(1, 70),
    channels=st.integers(1, 17),
    state_dim=st.integers(1, 17),
    strongest=st.sampled_from([0.0, 0.1, 5.0, 100.0]),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_it_is_the_equation(
    count: int, channels: int, state_dim: int, strongest: float, seed: int, dtype: torch.dtype
) -> None:
    case = make_case(count, channels, state_dim, strongest, seed, dtype)
    with poisoned_memory():
        assert_near(run(case), equation(case))


@pytest.mark.parametrize("cut", [1, 30, 69])
def test_a_run_has_the_bits_of_its_parts_and_of_its_tokens(cut: int) -> None:
    case = make_case(70)
    whole, after = run(case)
    first, state = run(part(case, slice(cut), case[-1]))
    second, state = run(part(case, slice(cut, None), state))
    assert torch.equal(torch.cat((first, second)), whole) and torch.equal(state, after)
    *inputs, state = part(case, slice(1), case[-1].clone())
    assert torch.equal(mamba1_step(SpaceInputs(*inputs), state), whole[:1])
