"""Both formats of the gated delta rule against the equation, token by token in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.common.shapes import DeltaInputs
from kernels.gated_delta.reference import (
    chunked_gated_delta_,
    recurrent_gated_delta_step,
)
from tests.kernels.poison import poisoned_memory

Case = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def make_case(
    count: int,
    key_heads: int = 2,
    value_heads: int = 4,
    key_dim: int = 8,
    value_dim: int = 6,
    strongest: float = 1.0,
    seed: int = 0,
    by_channel: bool = False,
) -> Case:
    """Queries, keys, values, decay, beta, state."""
    decays = (count, value_heads, key_dim)[: 3 if by_channel else 2]
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    return (
        normal(count, key_heads, key_dim),
        normal(count, key_heads, key_dim),
        normal(count, value_heads, value_dim),
        -strongest * torch.rand(decays, generator=generator),
        torch.rand(count, value_heads, generator=generator),
        normal(value_heads, key_dim, value_dim),
    )


def equation(case: Case) -> tuple[Tensor, Tensor]:
    """S <- e^g S;  S <- S + k beta (v - S^T k)^T;  o = S^T q, in float64, head by head."""
    queries, keys, values, decay, beta, start = (each.double() for each in case)
    outputs, states = torch.zeros_like(values), start.clone()
    copies = values.shape[1] // keys.shape[1]
    for head in range(values.shape[1]):
        state = states[head]
        for token in range(values.shape[0]):
            query, key = queries[token, head // copies], keys[token, head // copies]
            query = query * (query.square().sum() + 1e-6).rsqrt() * query.shape[0] ** -0.5
            key = key * (key.square().sum() + 1e-6).rsqrt()
            state = decay[token, head].exp().view(-1, 1) * state
            error = beta[token, head] * (values[token, head] - state.T @ key)
            state = state + torch.outer(key, error)
            outputs[token, head] = state.T @ query
        states[head] = state
    return outputs, states


BY_CHANNEL = pytest.mark.parametrize("by_channel", [False, True], ids=["by head", "by channel"])


def chunked(case: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    *inputs, state = case
    after = state.clone()
    return chunked_gated_delta_(DeltaInputs(*inputs), after), after


def recurrent(case: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    *inputs, state = case
    after = state.clone()
    return recurrent_gated_delta_step(DeltaInputs(*inputs), after), after


def assert_near(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 127, 128, 129, 200])
@BY_CHANNEL
def test_both_follow_the_equation(count: int, by_channel: bool) -> None:
    case = make_case(count, seed=count, by_channel=by_channel)
    expected = equation(case)
    with poisoned_memory():
        assert_near(chunked(case), expected)
        assert_near(recurrent(case), expected)


def test_a_step_moves_its_state_on_in_place() -> None:
    case = make_case(5)
    outputs, end = recurrent(case)
    *inputs, state = case
    tokens = zip(*(torch.split(each, 1) for each in inputs), strict=True)
    with poisoned_memory():
        steps = [recurrent_gated_delta_step(DeltaInputs(*token), state) for token in tokens]
    assert torch.equal(torch.cat(steps), outputs)
    assert torch.equal(state, end)


@settings(max_examples=25)
@given(
    count=st.integers(1, 150),
    key_heads=st.integers(1, 3),
    copies=st.integers(1, 3),
    key_dim=st.integers(1, 17),
    value_dim=st.integers(1, 17),
    strongest=st.sampled_from([0.0, 0.1, 5.0, 30.0]),
    seed=st.integers(0, 1000),
    by_channel=st.booleans(),
)
def test_odd_shapes_follow_the_equation(
    count: int,
    key_heads: int,
    copies: int,
    key_dim: int,
    value_dim: int,
    strongest: float,
    seed: int,
    by_channel: bool,
) -> None:
    heads = key_heads * copies
    case = make_case(count, key_heads, heads, key_dim, value_dim, strongest, seed, by_channel)
    expected = equation(case)
    with poisoned_memory():
        assert_near(chunked(case), expected)
        assert_near(recurrent(case), expected)


@BY_CHANNEL
def test_strong_decay_stays_finite(by_channel: bool) -> None:
    queries, keys, values, decay, beta, state = make_case(200, by_channel=by_channel)
    decay[::3] = -90.0  # e^-90 is zero in float32, and the sum over a chunk passes -1,900
    case = (queries, keys, values, decay, beta, state)
    assert_near(chunked(case), equation(case))


class _Denormals(TorchDispatchMode):
    """Counts the ops whose result holds a number too small for a processor's fast path."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        written = isinstance(result, Tensor) and "empty" not in func.__name__
        if written and result.is_floating_point():
            smallest = torch.finfo(result.dtype).smallest_normal
            self.count += bool(((result != 0) & (result.abs() < smallest)).any())
        return result


@pytest.mark.parametrize("strongest", [3.0, 30.0])
@BY_CHANNEL
def test_no_decay_ends_in_denormal_numbers(strongest: float, by_channel: bool) -> None:
    """With them a chunk of the released 0.8B's heads takes several times as long."""
    case = make_case(200, strongest=strongest, by_channel=by_channel)
    with _Denormals() as found:
        chunked(case)
    assert found.count == 0


def test_zero_keys_leave_a_decayed_state() -> None:
    queries, keys, values, decay, beta, state = make_case(70)
    _, after = chunked((queries, torch.zeros_like(keys), values, decay, beta, state))
    torch.testing.assert_close(after, state * decay.sum(0).exp()[:, None, None])


@pytest.mark.parametrize("cut", [1, 2, 63, 64, 65, 100])
def test_carried_state_continues_the_run(cut: int) -> None:
    *inputs, state = make_case(130)
    first, middle = chunked((*(each[:cut] for each in inputs), state))
    second, end = chunked((*(each[cut:] for each in inputs), middle))
    assert_near((torch.cat((first, second)), end), chunked((*inputs, state)))


def test_inputs_are_left_alone() -> None:
    for rule in (chunked, recurrent):
        case = make_case(65)
        copies = [each.clone() for each in case]
        rule(case)
        assert all(torch.equal(*pair) for pair in zip(case, copies, strict=True))


def test_bfloat16_inputs_are_widened_first() -> None:
    *inputs, state = make_case(70)
    rough = [each.bfloat16() for each in inputs]
    wide = [each.float() for each in rough]
    for rule in (chunked, recurrent):
        assert torch.equal(rule((*rough, state))[0], rule((*wide, state))[0])
