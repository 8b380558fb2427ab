"""The state space of Mamba-2 in chunks and step by step, against its equation in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from kernels.common.shapes import SpaceInputs
from kernels.mamba2.reference import mamba2_run_, mamba2_step, time_steps
from tests.kernels.poison import poisoned_memory

Case = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def make_case(
    count: int,
    heads: int = 4,
    head_dim: int = 6,
    groups: int = 2,
    state_dim: int = 8,
    strongest: float = 1.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Case:
    """Inputs, B, C, steps, rate, skip, state; the first three are views of wider rows."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    widths = [heads * head_dim, groups * state_dim, groups * state_dim, 5]
    columns = normal(count, sum(widths)).to(dtype)
    columns[:, -5:] = float("nan")
    inputs, b, c, _ = columns.split(widths, dim=1)
    return (
        inputs.view(count, heads, head_dim),
        b.view(count, groups, state_dim),
        c.view(count, groups, state_dim),
        torch.rand(count, heads, generator=generator),
        -strongest * torch.rand(heads, generator=generator),
        normal(heads),
        normal(heads, head_dim, state_dim),
    )


def equation(case: Case) -> tuple[Tensor, Tensor]:
    """S <- e^(d A) S + d x B^T;  y = S C + D x, in float64, head by head."""
    inputs, b, c, steps, rate, skip, start = (each.double() for each in case)
    outputs, states = torch.zeros_like(inputs), start.clone()
    copies = inputs.shape[1] // b.shape[1]
    for head in range(inputs.shape[1]):
        state, group = states[head], head // copies
        for token in range(inputs.shape[0]):
            given, step = inputs[token, head], steps[token, head]
            state = (step * rate[head]).exp() * state + step * torch.outer(given, b[token, group])
            outputs[token, head] = state @ c[token, group] + skip[head] * given
        states[head] = state
    return outputs, states


def chunked(case: Case) -> tuple[Tensor, Tensor]:
    *inputs, state = case
    state = state.clone()
    return mamba2_run_(SpaceInputs(*inputs), state), state


def stepped(case: Case) -> tuple[Tensor, Tensor]:
    inputs, b, c, steps, rate, skip, state = case
    state = state.clone()
    found = []
    for token in range(len(inputs)):
        x, one_b, one_c, step = (each[token : token + 1] for each in (inputs, b, c, steps))
        found.append(mamba2_step(SpaceInputs(x, one_b, one_c, step, rate, skip), state))
    return torch.cat(found), state


def assert_near(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 128, 200])
def test_both_follow_the_equation(count: int) -> None:
    case = make_case(count, seed=count)
    expected = equation(case)
    with poisoned_memory():
        assert_near(chunked(case), expected)
        assert_near(stepped(case), expected)


@settings(max_examples=25)
@given(
    count=st.integers(1, 150),
    groups=st.integers(1, 3),
    copies=st.integers(1, 3),
    head_dim=st.integers(1, 17),
    state_dim=st.integers(1, 17),
    strongest=st.sampled_from([0.0, 0.1, 5.0, 100.0]),
    seed=st.integers(0, 1000),
)
def test_odd_shapes_follow_the_equation(
    count: int, groups: int, copies: int, head_dim: int, state_dim: int, strongest: float, seed: int
) -> None:
    case = make_case(count, groups * copies, head_dim, groups, state_dim, strongest, seed)
    expected = equation(case)
    with poisoned_memory():
        assert_near(chunked(case), expected)
        assert_near(stepped(case), expected)


@pytest.mark.parametrize("cut", [1, 63, 64, 65, 100])
def test_a_carried_state_continues_the_run(cut: int) -> None:
    case = make_case(130)
    inputs, b, c, steps, rate, skip, state = case
    before = (inputs[:cut], b[:cut], c[:cut], steps[:cut], rate, skip)
    first, middle = chunked((*before, state))
    second, end = chunked((inputs[cut:], b[cut:], c[cut:], steps[cut:], rate, skip, middle))
    assert_near((torch.cat((first, second)), end), equation(case))


def test_steps_are_softplus_within_limits() -> None:
    steps, bias = torch.linspace(-30, 30, 24).view(8, 3), torch.tensor([-1.0, 0.0, 2.0])
    found = time_steps(steps.bfloat16(), bias, 0.5, 0.01, 9.0)
    expected = F.softplus(0.5 * steps.bfloat16().float() + bias).clamp(0.01, 9.0)
    torch.testing.assert_close(found, expected)
    assert found.min() == 0.01 and found.max() == 9.0
