"""Long work in short steps, between which the window looks for input, draws and answers.

Knows nothing of what the work is. All of it shares one timer, for Qt fires every timer that is due
before it looks for input again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import shiboken6
from PySide6.QtCore import QObject, QTimerEvent

# How long steps are taken before the window has its turn. One step takes some milliseconds at most:
# whoever asks for steps sees to that.
SLICE_S = 0.008

Step = Callable[[], bool]


class Pace(QObject):
    """Takes steps in turn while any are wanted."""

    def __init__(self) -> None:
        super().__init__()
        # In the order in which they are taken; a dict, for each is wanted once.
        self._steps: dict[Step, None] = {}
        self._timer = 0

    def go_on(self, step: Step) -> None:
        """Call a method of a QObject again and again, until it says that nothing is left."""
        self._steps.setdefault(step)
        if not self._timer:
            self._timer = self.startTimer(0)

    def forget(self, step: Step) -> None:
        """Take no more of these steps."""
        self._steps.pop(step, None)

    def is_busy(self) -> bool:
        """Whether any steps are left to take."""
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
    """Whether Qt has not destroyed meanwhile whose step this is."""
    owner = getattr(step, "__self__", None)
    return not isinstance(owner, QObject) or shiboken6.isValid(owner)


@cache
def pace() -> Pace:
    """The window's one pace."""
    return Pace()
