"""Watchdog of the engine's process: progress, and when to replace the process.

The computing thread counts what it finishes. The window pings every two seconds, an idle process
every four, and the thread that reads commands answers with that count, also while kernels compute,
since they release the interpreter lock.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator

from core.api.events import Beat

# The longest usual step of a request is one product of a run with one matrix: seconds, on a slow
# machine with a large model.
STEP_LIMIT_S = 20.0
# Attention of a layer reports no progress within. Multiplications for a pair of tokens are at most
# four times the width of a large model; a slow machine does this many a second.
_PAIR_FLOPS, _SLOW_FLOPS = 4.0 * 8192, 2e10
TICK_S = 2.0
# Torch may take long to import before the first answer.
SILENT_AT_START_TICKS = 60
# A worker is noticed after 8 s of silence, and lost after as long again. One that answers without
# progress has the limit it announced, and half of this again.
NOTICED_TICKS = 4
IDLE_TICKS = 2

_count = [0]
_limits = [STEP_LIMIT_S]


def report_progress() -> None:
    _count[0] += 1


def progress() -> int:
    return _count[0]


def step_limit_s() -> float:
    return _limits[-1]


def attention_limit_s(rows: int, keys: int) -> float:
    return STEP_LIMIT_S + rows * keys * _PAIR_FLOPS / _SLOW_FLOPS


@contextlib.contextmanager
def step_limit(seconds: float) -> Iterator[None]:
    """Set a limit for a compiler, a driver, a slow disk."""
    _limits.append(max(seconds, _limits[-1]))
    try:
        yield
    finally:
        _limits.pop()
        report_progress()


class Health(enum.Enum):
    """LOST: the worker won't recover by itself."""

    ALIVE = "alive"
    SILENT = "silent"
    LOST = "lost"


class Watchdog:
    """Counts ticks rather than time, so that suspend and resume don't trigger a restart."""

    def __init__(self) -> None:
        self._silent_ticks = 0
        self._stuck_ticks = 0
        self._last: Beat | None = None

    def ticks_to_wait(self, awaited: bool) -> int:
        """Until the next ping: more while the worker answers and has nothing to do."""
        idle = not awaited and self._last is not None and not self._last.busy
        return IDLE_TICKS if idle and self._silent_ticks <= IDLE_TICKS else 1

    def heard(self, beat: Beat | None = None) -> None:
        self._silent_ticks = 0
        if beat is None:
            return
        moved = self._last is None or self._last.progress != beat.progress
        if moved or not beat.busy:
            self._stuck_ticks = 0
        self._last = beat

    def tick(self, ticks: int = 1) -> Health:
        self._silent_ticks += ticks
        if self._last is None:
            return Health.LOST if self._silent_ticks >= SILENT_AT_START_TICKS else Health.ALIVE
        self._stuck_ticks += ticks * self._last.busy
        lost_after = self._last.step_limit_s / TICK_S + NOTICED_TICKS / 2
        if self._silent_ticks >= 2 * NOTICED_TICKS or self._stuck_ticks >= lost_after:
            return Health.LOST
        noticed_after = max(lost_after - 2 * NOTICED_TICKS, min(NOTICED_TICKS, lost_after - 1))
        noticed = self._silent_ticks >= NOTICED_TICKS or self._stuck_ticks >= noticed_after
        return Health.SILENT if noticed else Health.ALIVE
