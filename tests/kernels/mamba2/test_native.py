"""Mamba-2's state space on the compiled kernel, beside its equation token by token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.common.scans import SpaceInputs
from kernels.native_ops import native_ops
from kernels.ops import PLAIN_OPS
from tests.kernels.mamba2.test_reference import Case, equation, make_case
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.kernels.poison import poisoned_memory

pytestmark = NEEDS_COMPILER
# Heads, head dimension, groups, state dimension.
SIZES = [(1, 1, 1, 16), (4, 33, 2, 48), (24, 64, 1, 128), (2, 256, 2, 272)]


def run(case: Case, name: str = "mamba2_run_", ops: Any = None) -> tuple[Tensor, Tensor]:
    *inputs, state = case
    state = state.clone()
    with poisoned_memory():
        return getattr(ops or native_ops(library()), name)(SpaceInputs(*inputs), state), state


def part(case: Case, rows: slice, state: Tensor) -> Case:
    inputs, b, c, steps, rate, skip, _ = case
    return inputs[rows], b[rows], c[rows], steps[rows].contiguous(), rate, skip, state


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 200])
def test_it_is_the_equation(tokens: int, sizes: tuple[int, int, int, int]) -> None:
    case = make_case(tokens, *sizes, strongest=3.0)
    found = run(case)
    for mine, other in zip(found, equation(case), strict=True):
        assert (mine - other).abs().max() <= 2e-5 * other.abs().max()
    if tokens > 1:  # or plain torch was compared with itself
        assert not torch.equal(found[0], run(case, ops=PLAIN_OPS)[0])


def test_a_run_has_the_bits_of_its_parts_and_of_its_tokens() -> None:
    case = make_case(200, 4, 33, 2, 48)
    whole, after = run(case)
    for length, name in ((64, "mamba2_run_"), (7, "mamba2_run_"), (1, "mamba2_step")):
        state, found = case[-1], []
        for start in range(0, 200, length):
            outputs, state = run(part(case, slice(start, start + length), state), name)
            found.append(outputs)
        assert torch.equal(torch.cat(found), whole) and torch.equal(state, after)


def test_bits_depend_on_no_number_of_threads() -> None:
    case = make_case(100, 6, 20, 2, 32)
    expected = run(case)
    for threads in (2, 3, 4):
        torch.set_num_threads(threads)
        found = run(case)
        torch.set_num_threads(1)
        assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("sizes", [(1, 4, 1, 17), (1, 257, 1, 16)])
def test_what_there_is_no_room_for_is_torchs(sizes: tuple[int, int, int, int]) -> None:
    case = make_case(70, *sizes)
    assert all(map(torch.equal, run(case), run(case, ops=PLAIN_OPS)))
    one = part(case, slice(1), case[-1])
    assert all(map(torch.equal, run(one, "mamba2_step"), run(one, "mamba2_step", PLAIN_OPS)))


def test_a_state_that_is_forgotten_ends_at_zero() -> None:
    """Numbers below 1e-38 would make each later step ten times slower."""
    *inputs, _ = make_case(1, 1, 4, 1, 16)
    inputs[0].zero_()
    inputs[3].fill_(1.0)
    inputs[4].fill_(-20.0)
    state = torch.full((1, 4, 16), 1e-30)
    for _ in range(3):
        native_ops(library()).mamba2_step(SpaceInputs(*inputs), state)
    assert bool((state == 0).all())


def test_what_is_not_a_number_stays_so() -> None:
    case = make_case(3, 2, 4, 1, 16)
    case[0][1, 0, 2] = float("nan")
    found, after = run(case)
    assert found[1:, 0, 2].isnan().all() and after[0, 2].isnan().all()
    assert not found[0].isnan().any() and not found[:, 1].isnan().any()
    steps = torch.tensor([[float("nan"), 1.0]])
    opened = native_ops(library()).time_steps(steps, torch.zeros(2), 1.0, 0.0, 9.0)
    assert opened.isnan().tolist() == [[True, False]]
