"""The selective scan of Mamba-1 on the compiled kernel, beside its equation token by token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.common.scans import SpaceInputs
from kernels.native_ops import native_ops
from kernels.ops import PLAIN_OPS
from tests.kernels.mamba1.test_reference import Case, assert_near, equation, make_case, part
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.kernels.poison import poisoned_memory

pytestmark = NEEDS_COMPILER
# Channels and states: a register, more than a part, more than are held at once.
SIZES = [(16, 1), (16, 16), (80, 5), (160, 16), (48, 64), (144, 23)]


def run(case: Case, name: str = "mamba1_run_", ops: Any = None) -> tuple[Tensor, Tensor]:
    *inputs, state = case
    state = state.clone()
    with poisoned_memory():
        return getattr(ops or native_ops(library()), name)(SpaceInputs(*inputs), state), state


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 100])
def test_it_is_the_equation(tokens: int, sizes: tuple[int, int], dtype: torch.dtype) -> None:
    case = make_case(tokens, *sizes, strongest=3.0, dtype=dtype)
    found = run(case)
    assert_near(found, equation(case))
    if tokens > 1:  # or plain torch was compared with itself
        assert not torch.equal(found[0], run(case, ops=PLAIN_OPS)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_run_has_the_bits_of_its_parts_and_of_its_tokens(dtype: torch.dtype) -> None:
    case = make_case(200, 144, 16, dtype=dtype)
    whole, after = run(case)
    for length, name in ((64, "mamba1_run_"), (7, "mamba1_run_"), (1, "mamba1_step")):
        state, found = case[-1], []
        for start in range(0, 200, length):
            outputs, state = run(part(case, slice(start, start + length), state), name)
            found.append(outputs)
        assert torch.equal(torch.cat(found), whole) and torch.equal(state, after)


def test_a_channel_depends_on_no_other() -> None:
    case = make_case(50, 208, 16)
    inputs, b, c, steps, rate, skip, state = case
    whole, after = run(case)
    some = slice(96, 144)
    alone = (inputs[:, some], b, c, steps[:, some].contiguous(), rate[:, some].contiguous())
    found, left = run((*alone, skip[some].contiguous(), state[:, some].contiguous()))
    assert torch.equal(found, whole[:, some]) and torch.equal(left, after[:, some])


def test_bits_depend_on_no_number_of_threads() -> None:
    case = make_case(100, 400, 16)
    expected = run(case)
    for threads in (2, 3, 4):
        torch.set_num_threads(threads)
        found = run(case)
        torch.set_num_threads(1)
        assert all(map(torch.equal, found, expected))


def test_what_hardly_decays_is_kept_for_thousands_of_tokens() -> None:
    """An error in a power of 2 that always goes one way would grow with every token."""
    case = make_case(4000, 16, 4)
    inputs, b, c, steps, rate, skip, state = case
    case = (0 * inputs, b, c, 1e-4 * steps, rate, skip, state)
    found, after = run(case)
    expected, left = equation(case)
    torch.testing.assert_close(after.double(), left, rtol=4e-5, atol=0)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(17, 4), (16, 65)])
def test_what_there_is_no_room_for_is_torchs(sizes: tuple[int, int]) -> None:
    case = make_case(20, *sizes)
    assert all(map(torch.equal, run(case), run(case, ops=PLAIN_OPS)))
    one = part(case, slice(1), case[-1])
    assert all(map(torch.equal, run(one, "mamba1_step"), run(one, "mamba1_step", PLAIN_OPS)))


def test_a_state_that_is_forgotten_ends_at_zero() -> None:
    """Numbers below 1e-38 would make each later step ten times slower."""
    *inputs, _ = make_case(1, 16, 4)
    inputs[0].zero_()
    inputs[3].fill_(1.0)
    inputs[4].fill_(-50.0)
    state = torch.full((4, 16), 1e-30)
    for _ in range(2):
        native_ops(library()).mamba1_step(SpaceInputs(*inputs), state)
    assert bool((state == 0).all())


def test_what_is_not_a_number_stays_so() -> None:
    for place in (0, 3, 4):  # the inputs, the steps, the rates
        case = make_case(3, 32, 17)
        case[place][1, 5] = float("nan")
        found, after = run(case)
        assert found[1:, 5].isnan().all() and after[1, 5].isnan().all()
        assert not found[:, :5].isnan().any() and not found[:, 6:].isnan().any()


def test_steps_are_softplus_far_from_zero_and_near() -> None:
    steps = torch.linspace(-80, 80, 3001).repeat(2, 1)
    found = native_ops(library()).time_steps(steps, torch.zeros(3001), 1.0, 0.0, float("inf"))
    expected = F.softplus(steps.double(), threshold=1000)
    torch.testing.assert_close(found.double(), expected, rtol=5e-7, atol=0)
    extreme = torch.tensor([[float("-inf"), -1e30, 1e30, float("inf"), float("nan")]])
    found = native_ops(library()).time_steps(extreme, torch.zeros(5), 1.0, 0.0, float("inf"))
    assert found[0, :4].tolist() == [0.0, 0.0, extreme[0, 2].item(), float("inf")]
    assert found[0, 4].isnan()
