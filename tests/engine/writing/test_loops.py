"""What counts as repeating without end, and what never does."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest

from core.api.params import LOOP_PERIOD, LOOP_TIMES, LOOP_TOKENS
from core.engine.writing.reply import LoopDetector


def ends_at(ids: Iterable[int]) -> int | None:
    """How many ids it takes until a loop is found."""
    detector = LoopDetector()
    return next((at for at, each in enumerate(ids, 1) if detector.push(each)), None)


def is_loop(ids: Sequence[int]) -> bool:
    """The definition, told slowly."""
    for period in range(1, LOOP_PERIOD + 1):
        last = ids[-max(LOOP_TOKENS, LOOP_TIMES * period) :]
        enough = len(last) == max(LOOP_TOKENS, LOOP_TIMES * period)
        if enough and all(a == b for a, b in zip(last, last[period:], strict=False)):
            return True
    return False


@pytest.mark.parametrize("period", [1, 2, 3, 63, 64, 65, 100, LOOP_PERIOD])
@pytest.mark.parametrize("before", [0, 1, 300])
def test_a_loop_is_found_at_the_token_that_makes_it_one(period: int, before: int) -> None:
    opening = list(range(10_000, 10_000 + before))
    ids = opening + list(range(period)) * (2 * LOOP_TOKENS + 2 * LOOP_TIMES)
    found = ends_at(ids)
    assert found == before + max(LOOP_TOKENS, LOOP_TIMES * period)
    assert is_loop(ids[:found]) and not is_loop(ids[: found - 1])


def test_a_loop_inside_a_loop_counts_by_its_own_length() -> None:
    """Of 1, 1, 1, 2 again and again the period is four, however often the 1 comes."""
    assert ends_at([1, 1, 1, 2] * LOOP_TOKENS) == LOOP_TOKENS


def rows(count: int, width: int, changes: bool) -> list[int]:
    """A table: equal rows, or such that differ in one number."""
    return [
        900 + row if changes and column == width // 2 else column
        for row in range(count)
        for column in range(width)
    ]


@pytest.mark.parametrize(
    "ids",
    [
        rows(2_000, 12, changes=True),
        rows(LOOP_TIMES - 1, LOOP_PERIOD, changes=False),
        rows(LOOP_TOKENS // 30, 30, changes=False),
        [each for row in range(40) for each in [7] * (LOOP_TOKENS - 1) + [row + 100]],
        [1, 2, 3] * (LOOP_TOKENS // 3),
        rows(100, LOOP_PERIOD + 1, changes=False),
    ],
    ids=["counting rows", "wide rows", "equal rows", "runs of zeros", "a short reply", "too long"],
)
def test_tables_and_short_replies_are_no_loops(ids: list[int]) -> None:
    assert ends_at(ids) is None


def test_the_detector_finds_what_the_definition_does() -> None:
    chance = random.Random(5)
    for _ in range(6):
        ids: list[int] = []
        while len(ids) < 3_000:
            piece = [chance.randrange(3) for _ in range(chance.choice([1, 2, 5, 40]))]
            ids += piece * chance.choice([1, 3, 2 * LOOP_TOKENS // len(piece)])
        found = ends_at(ids)
        assert found is not None and is_loop(ids[:found])
        assert not any(is_loop(ids[:at]) for at in range(found - 40, found))
