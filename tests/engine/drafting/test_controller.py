"""How many drafted tokens are worth a step."""

from __future__ import annotations

import pytest

from core.api.params import DraftSettings
from core.engine.drafting.costs import FORGOTTEN_AFTER, READINGS, Acceptance, StepCosts, best_depth
from core.engine.drafting.speculation import Speculation


def costs(*seconds: float) -> StepCosts:
    """Of steps of 1, 2, .. tokens."""
    found = StepCosts()
    for num_tokens, each in enumerate(seconds, start=1):
        for _ in range(3):
            found.note(num_tokens, each)
    return found


@pytest.mark.parametrize(
    ("rate", "per_token", "expected"),
    [(0.99, 0.1, 7), (0.7, 0.1, 4), (0.7, 0.5, 1), (0.3, 0.5, 0), (0.0, 0.01, 0), (0.9, 1.0, 0)],
)
def test_depth_is_what_gains_the_most(rate: float, per_token: float, expected: int) -> None:
    known = costs(*(1 + per_token * number for number in range(8)))
    assert best_depth(7, rate, known)[0] == expected
    assert best_depth(3, rate, known)[0] <= 3 and best_depth(0, rate, known)[0] == 0


def test_a_width_that_nobody_measured_is_guessed_in_proportion() -> None:
    known = StepCosts()
    assert known.of(2) > known.of(1) > 0
    for _ in range(3):
        known.note(1, 0.5)
    assert known.of(1) == 0.5 and 0.5 < known.of(2) < known.of(8)
    for _ in range(3):
        known.note(4, 2.0)
    assert known.of(4) == 2.0 and known.of(5) > 2.0 and known.of(1) == 0.5


def test_a_core_that_was_taken_away_moves_no_cost() -> None:
    known = costs(1.0)
    known.note(1, 50.0)
    assert known.of(1) == 1.0
    for _ in range(READINGS):
        known.note(1, 3.0)
    assert known.of(1) == 3.0


def test_the_step_that_is_captured_is_not_counted() -> None:
    known = StepCosts()
    known.note(2, 9.0)
    known.note(2, 1.0)
    assert known.of(2) == 1.0


def test_what_made_a_width_slow_is_forgotten_in_time() -> None:
    known = StepCosts()
    for seconds in (1.0, 1.0, 1.0):
        known.note(1, seconds)
    for seconds in (9.0, 9.0, 9.0):
        known.note(2, seconds)
    assert best_depth(1, 0.9, known)[0] == 0
    for _ in range(2 * FORGOTTEN_AFTER):
        known.note(1, 1.0)
    assert known.of(2) == pytest.approx(1.2) and best_depth(1, 0.9, known)[0] == 1
    assert known.of(1) == 1.0


def test_a_step_that_is_not_usual_says_nothing_of_others() -> None:
    known, settings = StepCosts(), DraftSettings(mode="lookup")
    speculation = Speculation(settings, [], 50, known)
    for is_usual in (True, False, False):
        speculation.draft(0)
        speculation.note(2, 1, is_usual)
    assert known.of(3) == 1.4, "nobody measured it but the first, which is left out"
    counts = speculation.counts()
    assert counts is not None and (counts.cycles, counts.drafted, counts.accepted) == (3, 6, 3)


def test_rates_follow_what_was_right() -> None:
    right, wrong = Acceptance(0.5), Acceptance(0.5)
    assert right.rate == wrong.rate == 0.5
    for _ in range(20):
        right.note(4, 4)
        wrong.note(4, 0)
    assert right.rate > 0.9 and wrong.rate < 0.12
    for _ in range(500):
        wrong.note_untried()
    assert wrong.rate > 0.45, "a kind of draft is tried again some time"


@pytest.mark.parametrize(("per_token", "drafting"), [(0.1, 0.15), (0.1, 0.05), (0.3, 0.5)])
def test_a_models_own_drafts_that_are_never_right_cost_less_than_two_percent(
    per_token: float, drafting: float
) -> None:
    known, lost, tried = costs(*(1 + per_token * number for number in range(8))), 0.0, 0
    for _ in range(2_000):
        depth, _ = best_depth(7, known.own_drafts.rate, known, drafting)
        if depth:
            known.own_drafts.note(depth, 0)
            tried, lost = tried + 1, lost + known.of(1 + depth) - 1 + depth * drafting
        else:
            known.own_drafts.note_untried()
    assert tried > 1, "they are tried again some time"
    assert lost < 0.02 * 2_000


def test_what_stands_behind_a_wrong_token_says_nothing() -> None:
    long, short = Acceptance(0.5), Acceptance(0.5)
    long.note(7, 1)
    short.note(2, 1)
    assert long.rate == short.rate


def test_what_a_draft_costs_is_guessed_measured_and_forgotten_in_time() -> None:
    known = costs(1.0, 1.1, 1.2)
    guessed = known.of_drafting()
    assert 0 < guessed < 1
    known.note_drafting(50.0)
    assert known.of_drafting() == guessed, "the first is left out"
    known.note_drafting(9.0)
    assert known.of_drafting() == 9.0 and best_depth(7, 0.9, known, known.of_drafting())[0] == 0
    known.note_drafting(0.1)
    assert known.of_drafting() == 0.1
    for _ in range(3):
        known.note_drafting(9.0)
    assert known.of_drafting() == 9.0
    for _ in range(5 * FORGOTTEN_AFTER):
        known.note_undrafted()
    assert known.of_drafting() == guessed


def test_drafts_that_take_longer_are_shorter() -> None:
    known = costs(*(1 + 0.05 * number for number in range(8)))
    free, _ = best_depth(7, 0.7, known)
    dear, speed = best_depth(7, 0.7, known, 0.2)
    assert free > dear > 0 and speed > 1
    assert best_depth(7, 0.7, known, 2.0) == (0, 1.0)


def test_of_two_readings_the_lower_counts() -> None:
    known = StepCosts()
    for seconds in (1.0, 4.0, 1.1):
        known.note(2, seconds)
    assert known.of(2) == 1.1
