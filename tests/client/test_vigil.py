"""When a worker is noticed to be silent, and when it is given up: counts, no clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core import pulse
from core.api.events import Beat
from core.client.vigil import TICK_S, Verdict, Vigil


def beat(signs: int = 0, busy: bool = True, longest: float = pulse.STEP_S) -> Beat:
    return Beat(busy=busy, signs=signs, longest_step_s=longest)


def seconds_until(vigil: Vigil, wanted: Verdict, heard: Beat | None = None) -> float:
    for ticks in range(1, 1000):
        if heard is not None:
            vigil.heard(heard)
        if vigil.tick() is wanted:
            return ticks * TICK_S
    raise AssertionError(f"never {wanted}")


def test_H5_silence_is_noticed_within_ten_seconds_and_ends_within_thirty() -> None:
    vigil = Vigil()
    vigil.heard(beat())
    assert seconds_until(vigil, Verdict.SILENT) <= 10
    assert 10 + seconds_until(vigil, Verdict.LOST) <= 30


def test_H5_work_that_never_moves_is_noticed_and_ended_alike() -> None:
    vigil = Vigil()
    assert seconds_until(vigil, Verdict.SILENT, beat()) <= 10
    assert 10 + seconds_until(vigil, Verdict.LOST, beat()) <= 30


def test_an_announced_long_step_is_waited_for() -> None:
    vigil = Vigil()
    assert seconds_until(vigil, Verdict.SILENT, beat(longest=180)) > 150
    assert seconds_until(vigil, Verdict.LOST, beat(longest=180)) < 30


@given(st.lists(st.booleans(), max_size=200))
def test_whoever_moves_or_rests_is_alive(moves: list[bool]) -> None:
    vigil, signs = Vigil(), 0
    for moved in moves:
        signs += moved
        vigil.heard(beat(signs, busy=moved))
        assert vigil.tick() is Verdict.ALIVE


def test_one_word_brings_it_back() -> None:
    vigil = Vigil()
    vigil.heard(beat())
    seconds_until(vigil, Verdict.SILENT)
    vigil.heard()
    vigil.heard(beat(signs=1))
    assert vigil.tick() is Verdict.ALIVE


def test_before_the_first_beat_there_are_two_minutes() -> None:
    """Torch is imported, from a cold disk perhaps."""
    assert 100 < seconds_until(Vigil(), Verdict.LOST) <= 120
