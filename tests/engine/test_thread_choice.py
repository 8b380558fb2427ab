"""How the number of threads follows what steps take, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.engine.thread_choice import ThreadChoice, counts_to_choose_from

IDLE = {2: 0.060, 1: 0.100}
BUSY = {2: 0.200, 1: 0.105}
Seconds = Callable[[int, float], float]


class World:
    """Steps that take what `seconds(count, now)` says."""

    def __init__(self, seconds: Seconds, counts: tuple[int, ...] = (2, 1)) -> None:
        self.choice = ThreadChoice(counts)
        self.seconds = seconds
        self.now = 0.0

    def step(self) -> int:
        count = self.choice.next(self.now)
        spent = self.seconds(count, self.now)
        self.now += spent
        self.choice.took(count, spent, self.now)
        return count

    def run(self, steps: int) -> list[int]:
        return [self.step() for _ in range(steps)]

    def run_for(self, seconds: float) -> list[int]:
        counts, end = [], self.now + seconds
        while self.now < end:
            counts.append(self.step())
        return counts


def steady(table: dict[int, float]) -> Seconds:
    return lambda count, now: table[count]


def busy_between(start: float, end: float) -> Seconds:
    return lambda count, now: (BUSY if start <= now < end else IDLE)[count]


def test_counts_to_choose_from() -> None:
    assert counts_to_choose_from(1) == (1,)
    assert counts_to_choose_from(2) == (2, 1)
    assert counts_to_choose_from(3) == (3, 2, 1)
    assert counts_to_choose_from(8) == (8, 7, 4, 1)


def test_with_one_count_there_is_nothing_to_choose() -> None:
    world = World(steady({1: 0.1}), (1,))
    assert world.choice.settled
    assert set(world.run(300)) == {1}


def test_an_idle_machine_pays_one_per_cent() -> None:
    world = World(steady(IDLE))
    counts = world.run(3_000)
    assert world.now <= 1.012 * 3_000 * IDLE[2]
    # It does look, though: or it would not notice what was busy from the beginning.
    assert 0 < counts.count(1) < 60 and counts[-1] == 2


def test_what_is_busy_from_the_beginning_is_noticed() -> None:
    counts = World(steady(BUSY)).run(12)
    assert counts[-5:] == [1] * 5


def test_it_goes_over_and_comes_back() -> None:
    world = World(busy_between(30.0, 60.0))
    before = world.run_for(30.0)
    assert before.count(2) > 0.95 * len(before)
    world.run_for(3.0)
    assert world.run_for(20.0).count(2) <= 7
    world.run_for(60.0 - world.now)
    world.run_for(12.0)
    after = world.run_for(10.0)
    assert after.count(2) > 0.95 * len(after)


def test_a_busy_machine_keeps_nearly_all_of_what_fewer_threads_give() -> None:
    world = World(steady(BUSY))
    world.run(2_000)
    assert world.now <= 1.05 * 2_000 * BUSY[1]


def test_slow_steps_are_looked_into_at_once() -> None:
    """Long before the next look in vain would be due."""
    world = World(busy_between(30.0, 1e9))
    world.run_for(30.0)
    assert world.run_for(3.0)[-10:].count(1) >= 9


@pytest.mark.parametrize("growth", [1.001, 1.01])
def test_gradual_growth_is_no_busy_machine(growth: float) -> None:
    """What every step of a longer context takes more, it takes with one thread too."""
    num = 0

    def grown(count: int, now: float) -> float:
        nonlocal num
        num += 1
        return IDLE[count] * growth**num

    world = World(grown)
    world.run(20)  # with them the first step of a count, which is not judged
    counts = world.run(400)
    assert max(map(len, "".join(map(str, counts)).split("2"))) == 1
    assert counts.count(1) < 0.05 * len(counts)


@given(st.integers(0, 2**32), st.floats(1.0, 1.4), st.floats(0.0, 0.1), st.floats(1.0, 20.0))
def test_noise_does_not_make_it_flap(seed: int, width: float, spikes: float, height: float) -> None:
    """Steps that vary, and now and then one that is put off: it stays with what is faster."""
    random = Random(seed)

    def noisy(count: int, now: float) -> float:
        spike = height if random.random() < spikes else 1.0
        return IDLE[count] * random.uniform(1.0, width) * spike

    counts = World(noisy).run(1_000)
    switches = sum(one != other for one, other in pairwise(counts))
    assert counts.count(1) <= 0.08 * len(counts)
    assert switches <= 0.16 * len(counts)


@given(
    st.lists(st.tuples(st.floats(1e-5, 2.0), st.floats(1e-5, 2.0)), min_size=1, max_size=200),
    st.sampled_from([(2, 1), (4, 3, 2, 1), (16, 15, 8, 1)]),
    st.sets(st.sampled_from([1, 3, 8, 15])),
)
def test_only_counts_that_were_given_and_not_refused(
    spent: list[tuple[float, float]], counts: tuple[int, ...], refused: set[int]
) -> None:
    choice, now = ThreadChoice(counts), 0.0
    gone: set[int] = set()
    for seconds, pause in spent:
        while (count := choice.next(now)) in refused:
            assert count not in gone
            gone.add(count)
            choice.refuse(count)
        assert count in counts and count not in gone
        now += seconds
        choice.took(count, seconds, now)
        now += pause
        if seconds > 1.9:
            choice.restart()


def test_a_refused_count_leaves_the_others() -> None:
    table = {4: 0.4, 3: 0.1, 2: 0.12, 1: 0.2}
    choice = ThreadChoice((4, 3, 2, 1))
    now = 0.0
    chosen = []
    for _ in range(200):
        count = choice.next(now)
        if count == 3:
            choice.refuse(3)
            continue
        now += table[count]
        choice.took(count, table[count], now)
        chosen.append(count)
    assert set(chosen[-20:]) == {2}


def test_more_cores_settle_on_all_but_the_one_that_is_taken() -> None:
    """Shares are equal, so the one on the taken core is waited for: it gets half of that."""
    taken = {8: 2 / 8, 7: 1 / 7, 4: 1 / 4, 1: 1.0}
    idle = {8: 1 / 8, 7: 1 / 7, 4: 1 / 4, 1: 1.0}
    world = World(lambda count, now: (taken if now < 60.0 else idle)[count], (8, 7, 4, 1))
    world.run_for(30.0)
    assert world.run_for(20.0).count(7) > 50
    world.run_for(60.0)
    last = world.run_for(10.0)
    assert last.count(8) > 0.9 * len(last)


def test_a_machine_that_slept_amid_a_step_is_looked_at_again_within_two_minutes() -> None:
    world = World(steady(IDLE))
    while world.step() == 2:
        pass
    world.seconds = lambda count, now: 3_600.0 if count == 1 else IDLE[2]
    while world.step() == 2:
        pass
    world.seconds = steady(BUSY)
    world.run_for(120.0)
    assert world.run_for(2.0).count(1) > 15


def test_another_context_is_not_compared_with_the_last() -> None:
    """A reply behind a long context took longer with all threads than a short one with one."""
    world = World(steady({2: 0.3, 1: 0.5}))
    world.run(200)
    world.now += 60.0
    world.seconds = steady(IDLE)
    world.choice.restart()
    assert world.run(40).count(2) >= 38


def test_the_first_step_with_a_count_is_not_judged() -> None:
    """It makes what the later ones find made."""
    first = True

    def seconds(count: int, now: float) -> float:
        nonlocal first
        if count == 1 and first:
            first = False
            return 1.0
        return BUSY[count]

    assert World(seconds).run(12)[-5:] == [1] * 5
