"""Long work in short steps, between which the window handles input and paints.

All work shares one timer, because Qt fires every due timer before it handles input again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import shiboken6
from PySide6.QtCore import QObject, QTimerEvent

# Steps run for this long before the window has its turn. A step must take a few milliseconds at
# most.
SLICE_S = 0.008

Step = Callable[[], bool]


class Pace(QObject):
    def __init__(self) -> None:
        super().__init__()
        self._steps: dict[Step, None] = {}
        self._timer = 0

    def go_on(self, step: Step) -> None:
        """Call a method of a QObject until it returns False."""
        self._steps.setdefault(step)
        if not self._timer:
            self._timer = self.startTimer(0)

    def forget(self, step: Step) -> None:
        self._steps.pop(step, None)

    def is_busy(self) -> bool:
        return bool(self._steps)

    def timerEvent(self, event: QTimerEvent) -> None:
        end = time.monotonic() + SLICE_S
        while self._steps and time.monotonic() < end:
            step = next(iter(self._steps))
            del self._steps[step]
            if _lives(step) and step():
                self._steps.setdefault(step)
        if not self._steps:
            self.killTimer(self._timer)
            self._timer = 0


def _lives(step: Step) -> bool:
    """False if Qt has destroyed the step's owner."""
    owner = getattr(step, "__self__", None)
    return not isinstance(owner, QObject) or shiboken6.isValid(owner)


@cache
def pace() -> Pace:
    return Pace()
