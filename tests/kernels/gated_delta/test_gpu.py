"""The gated delta rule on a GPU against its equation in float64: steps, chunks, views, poison."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.common.shapes import DeltaInputs
from tests.kernels.gated_delta.test_reference import BY_CHANNEL, Case, equation, make_case
from tests.kernels.gpu import assert_near, guarded_memory, is_poison, strided

gpu = pytest.importorskip("kernels.gated_delta.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu

DTYPES = [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16]


def rounded(case: Case, dtype: torch.dtype) -> Case:
    """Queries, keys and values as a model of this type has them; the rest is always float32."""
    queries, keys, values, decay, beta, state = case
    first = (each.to(dtype).float() for each in (queries, keys, values))
    queries, keys, values = first
    return queries, keys, values, decay, beta, state


def chunked(rows: DeltaInputs, state: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs, and a state of its own that was moved on in place."""
    after = state.clone()
    return gpu.chunked_gated_delta_(rows, after), after


def inputs(case: Case, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """The five inputs as the kernels get them: views, in their types."""
    *heads, decay, beta, _ = case
    rough = [strided(each.to(dtype).to(device)) for each in heads]
    return [*rough, strided(decay.to(device), 3), strided(beta.to(device), 1)]


def assert_follows(found: tuple[Tensor, Tensor], case: Case) -> None:
    """Outputs and state add up dk + 64 products one by one, each off by half an ulp at most.

    The largest number bounds what is added, up to the few that cancel; squared lengths, decays and
    exponentials add some ulps of their own. A decay is e to the difference of two sums over up to
    64 tokens, and so off by as many ulps as the sums are large.
    """
    decay = case[3].abs().flatten(1)
    sums = decay.sum(0) if len(decay) < 64 else decay.unfold(0, 64, 1).sum(-1)
    ulps = case[1].shape[2] + 64 + 32 + float(sums.max())
    for ours, theirs in zip(found, equation(case), strict=True):
        assert ours.dtype == torch.float32
        assert_near(ours, theirs, ulps, theirs.abs().max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "key_heads", "value_heads", "key_dim", "value_dim"),
    [(1, 2, 4, 128, 128), (1, 3, 3, 17, 5), (2, 1, 3, 16, 32), (7, 1, 1, 6, 18)],
)
@BY_CHANNEL
def test_steps_move_the_state_in_place(
    count: int,
    key_heads: int,
    value_heads: int,
    key_dim: int,
    value_dim: int,
    dtype: torch.dtype,
    by_channel: bool,
    device: torch.device,
) -> None:
    sizes = count, key_heads, value_heads, key_dim, value_dim
    case = rounded(make_case(*sizes, by_channel=by_channel), dtype)
    around = torch.full((value_heads + 2, key_dim, value_dim), float("nan"), device=device)
    state = around[1:-1].copy_(case[-1])
    with guarded_memory():
        found = gpu.recurrent_gated_delta_step(DeltaInputs(*inputs(case, dtype, device)), state)
    assert_follows((found, state), case)
    assert is_poison(around[0]).all()
    assert is_poison(around[-1]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "key_heads", "value_heads", "key_dim", "value_dim"),
    [
        (1, 1, 2, 16, 32),
        (63, 2, 2, 8, 6),
        (64, 1, 1, 128, 128),
        (65, 1, 3, 17, 40),
        pytest.param(200, 1, 1, 16, 9, marks=pytest.mark.slow),
        pytest.param(513, 1, 1, 16, 16, marks=pytest.mark.slow),
    ],
)
@BY_CHANNEL
def test_chunks_follow_the_equation(
    count: int,
    key_heads: int,
    value_heads: int,
    key_dim: int,
    value_dim: int,
    dtype: torch.dtype,
    by_channel: bool,
    device: torch.device,
) -> None:
    # In a long run decays add up.
    strongest = 0.1 if count > 200 else 1.0
    sizes = count, key_heads, value_heads, key_dim, value_dim
    case = rounded(make_case(*sizes, strongest, by_channel=by_channel), dtype)
    state = case[-1].to(device)
    with guarded_memory():
        found = chunked(DeltaInputs(*inputs(case, dtype, device)), state)
    assert_follows(found, case)


@pytest.mark.parametrize("every", [1, 3])
@BY_CHANNEL
def test_strong_decay_stays_finite(every: int, by_channel: bool, device: torch.device) -> None:
    case = make_case(130, 1, 1, 8, 8, by_channel=by_channel)
    case[3][::every] = -90.0
    state = case[-1].to(device)
    assert_follows(chunked(DeltaInputs(*inputs(case, torch.float32, device)), state), case)
    found = gpu.recurrent_gated_delta_step(DeltaInputs(*inputs(case, torch.float32, device)), state)
    assert_follows((found, state), case)


def test_equal_keys_are_solved_without_cancellation(device: torch.device) -> None:
    """(I + A)^-1 as a product of powers of A loses every digit here: they pass 10^17."""
    case = make_case(64, 1, 1, 16, 16, strongest=0.0)
    case[1][:] = case[1][:1].clone()
    case[4][:] = 1.0
    state = case[-1].to(device)
    assert_follows(chunked(DeltaInputs(*inputs(case, torch.float32, device)), state), case)


@pytest.mark.parametrize("cut", [1, 64, 65])
def test_carried_state_continues_the_run(cut: int, device: torch.device) -> None:
    case = make_case(70, 1, 2, 16, 16)
    *rows, start = (each.to(device) for each in case)
    first, middle = chunked(DeltaInputs(*(each[:cut] for each in rows)), start)
    second, end = chunked(DeltaInputs(*(each[cut:] for each in rows)), middle)
    assert_follows((torch.cat((first, second)), end), case)


def test_a_head_does_not_depend_on_the_heads_beside_it(device: torch.device) -> None:
    *rows, start = (each.to(device) for each in make_case(66, 2, 2, 16, 16))
    whole, end = chunked(DeltaInputs(*rows), start)
    one, last = chunked(DeltaInputs(*(each[:, 1:] for each in rows)), start[1:])
    assert torch.equal(one, whole[:, 1:])
    assert torch.equal(last, end[1:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "heads", "decays"), [(1, 32, 32), (5, 3, 3), (0, 4, 4), (3, 2, 600)]
)
def test_gates_are_those_of_float64(
    count: int, heads: int, decays: int, dtype: torch.dtype, device: torch.device
) -> None:
    generator = torch.Generator().manual_seed(heads)
    rows = (10 * torch.randn(count, decays + heads, generator=generator)).to(dtype)
    step, beta = rows.split([decays, heads], dim=1)
    rate, bias = -torch.rand(decays, generator=generator), torch.randn(decays, generator=generator)
    given = [strided(each.to(device)) for each in (step, beta)]
    with guarded_memory():
        decay, opened = gpu.delta_gates(*given, rate.to(device), bias.to(device), 2.0)
    expected = rate.double() * torch.nn.functional.softplus(step.double() + bias.double())
    assert_near(decay, expected, 32, 1 + step.double().abs())
    assert_near(opened, 2 * beta.double().sigmoid(), 32, torch.ones(()))
