"""When the watchdog reports a worker as silent, and when as lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.events import Beat
from core.watchdog import STEP_LIMIT_S, TICK_S, Health, Watchdog, progress, step_limit, step_limit_s


def beat(progress: int = 0, busy: bool = True, limit: float = STEP_LIMIT_S) -> Beat:
    return Beat(busy=busy, progress=progress, step_limit_s=limit)


def seconds_until(watchdog: Watchdog, wanted: Health, heard: Beat | None = None) -> float:
    for ticks in range(1, 1000):
        if heard is not None:
            watchdog.heard(heard)
        if watchdog.tick() is wanted:
            return ticks * TICK_S
    raise AssertionError(f"never {wanted}")


def test_H5_a_hang_at_rest_is_noticed_as_soon() -> None:
    watchdog, seconds = Watchdog(), dict[Health, float]()
    watchdog.heard(beat(busy=False))
    assert watchdog.ticks_to_wait(awaited=False) > watchdog.ticks_to_wait(awaited=True) == 1
    passed = 0.0
    while Health.LOST not in seconds:
        ticks = watchdog.ticks_to_wait(awaited=False)
        passed += ticks * TICK_S
        seconds.setdefault(watchdog.tick(ticks), passed)
    assert seconds[Health.SILENT] <= 10 and seconds[Health.LOST] <= 30


@pytest.mark.parametrize("heard", [None, beat()], ids=["silence", "work that never moves"])
def test_H5_a_hang_is_noticed_within_ten_seconds_and_ends_within_thirty(heard: Beat | None) -> None:
    watchdog = Watchdog()
    watchdog.heard(beat())
    assert seconds_until(watchdog, Health.SILENT, heard) <= 10
    assert 10 + seconds_until(watchdog, Health.LOST, heard) <= 30


def test_an_announced_long_step_is_waited_for() -> None:
    watchdog = Watchdog()
    assert seconds_until(watchdog, Health.SILENT, beat(limit=180)) > 150
    assert seconds_until(watchdog, Health.LOST, beat(limit=180)) < 30


def test_a_step_limit_ends_with_its_step() -> None:
    before = progress()
    with step_limit(180), step_limit(30):
        assert step_limit_s() == 180
    assert step_limit_s() == STEP_LIMIT_S
    assert progress() > before


@given(st.lists(st.booleans(), max_size=200))
def test_whoever_moves_or_rests_is_alive(moves: list[bool]) -> None:
    watchdog, progress = Watchdog(), 0
    for moved in moves:
        progress += moved
        watchdog.heard(beat(progress, busy=moved))
        assert watchdog.tick() is Health.ALIVE


def test_rest_ends_a_step_that_made_no_progress() -> None:
    watchdog = Watchdog()
    seconds_until(watchdog, Health.SILENT, beat())
    watchdog.heard(beat(busy=False))
    assert seconds_until(watchdog, Health.SILENT, beat()) > 2 * TICK_S


def test_one_beat_brings_it_back() -> None:
    watchdog = Watchdog()
    watchdog.heard(beat())
    seconds_until(watchdog, Health.SILENT)
    watchdog.heard()
    watchdog.heard(beat(progress=1))
    assert watchdog.tick() is Health.ALIVE


def test_before_the_first_beat_there_are_two_minutes() -> None:
    """Torch is imported, from a cold disk perhaps."""
    assert 100 < seconds_until(Watchdog(), Health.LOST) <= 120
