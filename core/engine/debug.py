"""Slow checks of what must hold anyway, turned on by WAYMARK_DEBUG=integrity."""

from __future__ import annotations

import os

from core.api.prompt import Image, Prompt


def integrity() -> bool:
    """Whether the user asked for the slow checks."""
    return "integrity" in os.environ.get("WAYMARK_DEBUG", "").split(",")


def check_positions(prompt: Prompt) -> None:
    """Assert that every run has the positions that a walk over single tokens gives it."""
    expected = [list(axis) for axis in zip(*_walk(prompt), strict=True)]
    found: list[list[int]] = [[], [], []]
    for run in prompt.runs:
        for axis, positions in zip(found, run.position_ids(), strict=True):
            axis.extend(positions)
        assert run.end.token.value == len(found[0])
    assert found == expected


def _walk(prompt: Prompt) -> list[tuple[int, int, int]]:
    """Temporal, height and width position of every token, knowing nothing of cuts."""
    walked: list[tuple[int, int, int]] = []
    first = 0
    for segment in prompt.segments:
        if isinstance(segment, Image) and not segment.in_line:
            places = [
                (first, first + row, first + column)
                for row in range(segment.rows)
                for column in range(segment.columns)
            ]
        else:
            places = [(first + step,) * 3 for step in range(segment.num_tokens)]
        walked += places
        # After an image the next position is the largest on any axis plus one.
        first = 1 + max(max(place) for place in places)
    return walked
