"""Stop strings: found as text arrives, and held back while they could still be coming."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable


class StopStrings:
    """Watches the text of one channel, and lets through what is sure to be no stop string.

    The first stop string to be complete counts, and of those that end together the longest: in
    which pieces the text arrives changes nothing. `found_at` is where it begins, in characters of
    all text pushed; None while there is none.
    """

    def __init__(self) -> None:
        self._stops: list[str] = []
        self._longest = 0
        self._held = ""
        self._num_shown = 0
        self.found_at: int | None = None

    def watch_for(self, stops: Iterable[str]) -> None:
        """Look for these in the text that comes from now on."""
        self._stops = sorted(set(stops))
        self._longest = max(map(len, self._stops), default=0)

    def push(self, text: str) -> str:
        """Take new text, return what may be shown now. Nothing after a stop string was found."""
        if self.found_at is not None or not text:
            return ""
        self._held += text
        place = self._first_stop()
        if place is not None:
            self.found_at = self._num_shown + place
            return self._show(place, drop_rest=True)
        return self._show(len(self._held) - self._possible_start())

    def close(self) -> str:
        """Show what was held back: no stop string came of it."""
        return self._show(len(self._held))

    def _first_stop(self) -> int | None:
        """Where the stop string begins that is complete first."""
        found = [
            (place + len(stop), place)
            for stop in self._stops
            if (place := self._held.find(stop)) >= 0
        ]
        return min(found)[1] if found else None

    def _possible_start(self) -> int:
        """The length of the longest end of the text that begins a stop string."""
        for size in range(min(self._longest - 1, len(self._held)), 0, -1):
            tail = self._held[-size:]
            # In order, those that begin with the tail come first of all that are not before it.
            at = bisect_left(self._stops, tail)
            if at < len(self._stops) and self._stops[at].startswith(tail):
                return size
        return 0

    def _show(self, length: int, drop_rest: bool = False) -> str:
        shown, self._held = self._held[:length], "" if drop_rest else self._held[length:]
        self._num_shown += len(shown)
        return shown
