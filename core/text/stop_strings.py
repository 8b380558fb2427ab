"""Stop strings: found as text arrives, and held back while they could still be coming."""

from __future__ import annotations


class StopStrings:
    """Watches the text of one channel, and lets through what is sure to be no stop string.

    `found_at` is where one begins, in characters of all text pushed; None while there is none.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._longest = max(map(len, stops), default=0)
        self._held = ""
        self._num_shown = 0
        self.found_at: int | None = None

    def push(self, text: str) -> str:
        """Take new text, return what may be shown now. Nothing after a stop string was found."""
        if self.found_at is not None or not text:
            return ""
        self._held += text
        found = [place for place in map(self._held.find, self._stops) if place >= 0]
        if found:
            self.found_at = self._num_shown + min(found)
            return self._show(min(found), drop_rest=True)
        return self._show(len(self._held) - self._possible_start())

    def close(self) -> str:
        """Show what was held back: no stop string came of it."""
        return self._show(len(self._held))

    def _possible_start(self) -> int:
        """The length of the longest end of the text that begins a stop string."""
        for size in range(min(self._longest - 1, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-size:]) for stop in self._stops):
                return size
        return 0

    def _show(self, length: int, drop_rest: bool = False) -> str:
        shown, self._held = self._held[:length], "" if drop_rest else self._held[length:]
        self._num_shown += len(shown)
        return shown
