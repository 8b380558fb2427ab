"""The compiled scans of Mamba-1 and Mamba-2 against their equations, token by token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.common.shapes import SpaceInputs
from kernels.native_ops import native_ops
from kernels.ops import PLAIN_OPS
from tests.kernels.mamba1 import test_reference as mamba1
from tests.kernels.mamba2 import test_reference as mamba2
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.kernels.poison import poisoned_memory
from tests.sweeps import thinned

pytestmark = NEEDS_COMPILER
Case = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
Results = tuple[Tensor, Tensor]


def near_the_largest(found: Results, expected: Results) -> None:
    for mine, other in zip(found, expected, strict=True):
        assert (mine - other).abs().max() <= 2e-5 * other.abs().max()


class Scan(NamedTuple):
    name: str
    make: Callable[..., Case]
    equation: Callable[[Case], Results]
    assert_near: Callable[[Results, Results], None]


ONE = Scan("mamba1", mamba1.make_case, mamba1.equation, mamba1.assert_near)
TWO = Scan("mamba2", mamba2.make_case, mamba2.equation, near_the_largest)
BFLOAT16 = torch.bfloat16
FLOAT32 = torch.float32
# Mamba-1: channels and states: a register, more than a part, more than are held at once. Mamba-2:
# heads, their width, groups and states; its inputs are float32.
ONES = ((16, 1), (16, 16), (80, 5), (160, 16), (48, 64), (144, 23))
TWOS = ((1, 1, 1, 16), (4, 33, 2, 48), (24, 64, 1, 128), (2, 256, 2, 272))
SIZES = [
    *((ONE, sizes, dtype) for sizes in ONES for dtype in (FLOAT32, BFLOAT16)),
    *((TWO, sizes, FLOAT32) for sizes in TWOS),
]
ANY = [(ONE, (144, 16), FLOAT32), (ONE, (144, 16), BFLOAT16), (TWO, (6, 33, 2, 48), FLOAT32)]


def run(scan: Scan, case: Case, way: str = "run_", ops: Any = None) -> Results:
    *inputs, state = case
    state = state.clone()
    with poisoned_memory():
        operation = getattr(ops or native_ops(library()), f"{scan.name}_{way}")
        return operation(SpaceInputs(*inputs), state), state


def part(case: Case, rows: slice, state: Tensor) -> Case:
    inputs, b, c, steps, rate, skip, _ = case
    return inputs[rows], b[rows], c[rows], steps[rows], rate, skip, state


@pytest.mark.parametrize(("scan", "sizes", "dtype"), SIZES)
@pytest.mark.parametrize("tokens", thinned([1, 31, 32, 33, 100], [1, 32, 33]))
def test_it_is_the_equation(
    scan: Scan, tokens: int, sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    case = scan.make(tokens, *sizes, strongest=3.0, dtype=dtype)
    found = run(scan, case)
    scan.assert_near(found, scan.equation(case))
    if tokens > 1:  # or plain torch was compared with itself
        assert not torch.equal(found[0], run(scan, case, ops=PLAIN_OPS)[0])


@pytest.mark.parametrize(("scan", "sizes", "dtype"), ANY)
def test_a_run_has_the_bits_of_its_parts_and_of_its_tokens(
    scan: Scan, sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    case = scan.make(200, *sizes, dtype=dtype)
    whole, after = run(scan, case)
    for length, way in ((64, "run_"), (7, "run_"), (1, "step")):
        state, found = case[-1], []
        for start in range(0, 200, length):
            outputs, state = run(scan, part(case, slice(start, start + length), state), way)
            found.append(outputs)
        assert torch.equal(torch.cat(found), whole) and torch.equal(state, after)


def test_a_channel_depends_on_no_other() -> None:
    case = ONE.make(50, 208, 16)
    inputs, b, c, steps, rate, skip, state = case
    whole, after = run(ONE, case)
    some = slice(96, 144)
    alone = (inputs[:, some], b, c, steps[:, some].contiguous(), rate[:, some].contiguous())
    found, left = run(ONE, (*alone, skip[some].contiguous(), state[:, some].contiguous()))
    assert torch.equal(found, whole[:, some]) and torch.equal(left, after[:, some])


@pytest.mark.parametrize(("scan", "sizes", "dtype"), ANY)
def test_bits_depend_on_no_number_of_threads(
    scan: Scan, sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    case = scan.make(100, *sizes, dtype=dtype)
    expected = run(scan, case)
    for threads in (2, 3, 4):
        torch.set_num_threads(threads)
        found = run(scan, case)
        torch.set_num_threads(1)
        assert all(map(torch.equal, found, expected))


def test_what_hardly_decays_is_kept_for_thousands_of_tokens() -> None:
    """An error in a power of 2 that always goes one way would grow with every token."""
    inputs, b, c, steps, rate, skip, state = ONE.make(4000, 16, 4)
    case = (0 * inputs, b, c, 1e-4 * steps, rate, skip, state)
    found, after = run(ONE, case)
    expected, left = ONE.equation(case)
    torch.testing.assert_close(after.double(), left, rtol=4e-5, atol=0)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("scan", "sizes"),
    [(ONE, (17, 4)), (ONE, (16, 65)), (TWO, (1, 4, 1, 17)), (TWO, (1, 257, 1, 16))],
)
def test_sizes_that_no_kernel_takes_are_torchs(scan: Scan, sizes: tuple[int, ...]) -> None:
    case = scan.make(70, *sizes)
    assert all(map(torch.equal, run(scan, case), run(scan, case, ops=PLAIN_OPS)))
    one = part(case, slice(1), case[-1])
    assert all(map(torch.equal, run(scan, one, "step"), run(scan, one, "step", PLAIN_OPS)))


@pytest.mark.parametrize(("scan", "sizes"), [(ONE, (16, 4)), (TWO, (1, 4, 1, 16))])
def test_a_state_that_is_forgotten_ends_at_zero(scan: Scan, sizes: tuple[int, ...]) -> None:
    """Numbers below 1e-38 would make each later step ten times slower."""
    *inputs, state = scan.make(1, *sizes)
    inputs[0].zero_()
    inputs[3].fill_(1.0)
    inputs[4].fill_(-20.0)
    state.fill_(1e-30)
    step = getattr(native_ops(library()), f"{scan.name}_step")
    for _ in range(3):
        step(SpaceInputs(*inputs), state)
    assert bool((state == 0).all())


@pytest.mark.parametrize("place", [0, 3, 4])  # the inputs, the steps, the rates
def test_a_channel_that_is_not_a_number_stays_so(place: int) -> None:
    case = ONE.make(3, 32, 17)
    case[place][1, 5] = float("nan")
    found, after = run(ONE, case)
    assert found[1:, 5].isnan().all() and after[1, 5].isnan().all()
    assert not found[:, :5].isnan().any() and not found[:, 6:].isnan().any()


def test_a_head_that_is_not_a_number_stays_so() -> None:
    case = TWO.make(3, 2, 4, 1, 16)
    case[0][1, 0, 2] = float("nan")
    found, after = run(TWO, case)
    assert found[1:, 0, 2].isnan().all() and after[0, 2].isnan().all()
    assert not found[0].isnan().any() and not found[:, 1].isnan().any()


def test_steps_are_softplus_far_from_zero_and_near() -> None:
    steps = torch.linspace(-80, 80, 3001).repeat(2, 1)
    found = native_ops(library()).time_steps(steps, torch.zeros(3001), 1.0, 0.0, float("inf"))
    expected = F.softplus(steps.double(), threshold=1000)
    torch.testing.assert_close(found.double(), expected, rtol=5e-7, atol=0)
    extreme = torch.tensor([[float("-inf"), -1e30, 1e30, float("inf"), float("nan")]])
    found = native_ops(library()).time_steps(extreme, torch.zeros(5), 1.0, 0.0, float("inf"))
    assert found[0, :4].tolist() == [0.0, 0.0, extreme[0, 2].item(), float("inf")]
    assert found[0, 4].isnan()
