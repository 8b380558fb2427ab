"""Whether the worker is alive: judged by its heartbeats, in counts of our own ticks.

Pure: it is told what was heard and that time passed. Ticks are counted and clocks are not, so that
a computer that slept takes nobody for dead.
"""

from __future__ import annotations

import enum

from core.api.events import Beat

TICK_S = 2.0
# Of silence: torch may take long to import, and then there are heartbeats.
SILENT_AT_START_TICKS = 60
# 8 s of silence are noticed; a worker that is asked then has as long again to say anything. One
# that beats and does not move has the longest step that it announced, and half of this again.
NOTICED_TICKS = 4


class Verdict(enum.Enum):
    """`LOST`: it will not come back by itself."""

    ALIVE = "alive"
    SILENT = "silent"
    LOST = "lost"


class Vigil:
    """Watches over one worker from its start."""

    def __init__(self) -> None:
        self._silent = 0
        self._still = 0
        self._last: Beat | None = None

    def heard(self, beat: Beat | None = None) -> None:
        """The worker said something; `beat` is its heartbeat, if it was that."""
        self._silent = 0
        if beat is None:
            return
        moved = self._last is None or self._last.signs != beat.signs
        if moved or not beat.busy:
            self._still = 0
        self._last = beat

    def tick(self) -> Verdict:
        """Another TICK_S have passed."""
        self._silent += 1
        if self._last is None:
            return Verdict.LOST if self._silent >= SILENT_AT_START_TICKS else Verdict.ALIVE
        self._still += self._last.busy
        longest = self._last.longest_step_s / TICK_S
        lost_after = longest + NOTICED_TICKS / 2
        if self._silent >= 2 * NOTICED_TICKS or self._still >= lost_after:
            return Verdict.LOST
        noticed_after = max(lost_after - 2 * NOTICED_TICKS, min(NOTICED_TICKS, lost_after - 1))
        noticed = self._silent >= NOTICED_TICKS or self._still >= noticed_after
        return Verdict.SILENT if noticed else Verdict.ALIVE
