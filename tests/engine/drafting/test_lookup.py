"""The lookup finds text from anywhere in the chat and never searches pictures."""

from __future__ import annotations

import random

import pytest

from core.engine.drafting.speculation import MOST_PLACES, PromptLookup


@pytest.mark.parametrize(
    ("ids", "most", "expected", "match"),
    [
        ([], 7, [], 0),
        ([1], 7, [], 0),
        ([1, 2, 3, 4, 1, 2], 7, [3, 4], 2),
        ([1, 2, 3, 4, 1, 2], 1, [3], 2),
        ([1, 2, 3, 4, 1, 2], 0, [], 2),
        ([1, 2, 3, 4, 1, 3], 7, [], 0),
        # The longest match comes first, of equal ones the newest.
        ([5, 1, 2, 3, 6, 1, 2, 4, 5, 1, 2], 7, [3, 6, 1], 3),
        ([1, 2, 3, 1, 2, 4, 1, 2], 7, [4, 1], 2),
        # A picture is a number below 0.
        ([1, 2, -1, 4, 1, 2], 7, [], 2),
        ([-1, 2, 3, -2, 2], 7, [], 0),
        ([7, 7, 7, 7], 7, [7], 3),
    ],
)
def test_what_followed_the_longest_match_is_drafted(
    ids: list[int], most: int, expected: list[int], match: int
) -> None:
    assert PromptLookup(ids).propose(most) == (expected, match)


def test_it_finds_what_a_search_of_everything_finds() -> None:
    draw = random.Random(2)
    for _ in range(200):
        ids = [draw.randrange(6) for _ in range(draw.randrange(2, 40))]
        found, match = PromptLookup(ids).propose(7)
        best = 0
        for end in range(1, len(ids)):
            length = 0
            while length < end and ids[end - 1 - length] == ids[-1 - length]:
                length += 1
            best = max(best, length)
        assert match == (best if best >= 2 else 0)
        assert len(found) == min(match, 7) or len(found) < match
        if found:
            text = ",".join(map(str, [*ids[len(ids) - match :], *found])) + ","
            assert f",{text}" in "," + ",".join(map(str, ids)) + ","


def test_ids_may_come_one_by_one() -> None:
    ids = [3, 1, 4, 1, 5, 9, 2, 6, 3, 1, 4, 1]
    one_by_one = PromptLookup(())
    for token_id in ids:
        one_by_one.follow([token_id])
    assert one_by_one.propose(7) == PromptLookup(ids).propose(7) == ([5, 9, 2, 6], 4)


def test_a_pair_that_stands_everywhere_costs_a_bounded_search() -> None:
    looked = 0

    class Counting(PromptLookup):
        def _match(self, place: int) -> int:
            nonlocal looked
            looked += 1
            return super()._match(place)

    found, _ = Counting([1, 2] * 5_000).propose(7)
    assert found == [1, 2, 1, 2, 1, 2, 1][: len(found)] and 0 < looked <= MOST_PLACES
