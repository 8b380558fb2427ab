"""Where the rows of a long column lie: the heights of those laid out once, a guess for the others.

Pure arithmetic: no widgets, no screen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class RowPlaces:
    """Heights in pixels, one row below the other with `gap` between them."""

    def __init__(self, gap: int) -> None:
        self._gap = gap
        self._heights: list[int] = []
        # The upper edge of each row, and of one that would follow; None after a change.
        self._tops: list[int] | None = None

    def __len__(self) -> int:
        return len(self._heights)

    def replace_from(self, place: int, heights: Sequence[int]) -> None:
        """Rows from this one on are gone; these come in their place."""
        self._heights[place:] = heights
        self._tops = None

    def set_height(self, place: int, height: int) -> None:
        """A row was laid out."""
        if self._heights[place] != height:
            self._heights[place] = height
            self._tops = None

    def height(self, place: int) -> int:
        """How high a row is."""
        return self._heights[place]

    def top(self, place: int) -> int:
        """Where a row begins."""
        return self._all_tops()[place]

    def total(self) -> int:
        """Where the last row ends."""
        return max(0, self._all_tops()[-1] - self._gap)

    def at(self, y: int) -> int:
        """The row at a height; the gap below a row is its own. Call only where there are rows."""
        return min(max(0, bisect_right(self._all_tops(), y) - 1), len(self._heights) - 1)

    def between(self, top: int, bottom: int) -> range:
        """The rows of which any part lies between two heights."""
        if not self._heights:
            return range(0)
        return range(self.at(top), self.at(bottom) + 1)

    def _all_tops(self) -> list[int]:
        if self._tops is None:
            steps = (height + self._gap for height in self._heights)
            self._tops = list(accumulate(steps, initial=0))
        return self._tops
