"""Python's cycle collector, kept to the window's thread.

It runs in whichever thread happens to make the next object, and would there destroy Qt objects
left in reference cycles; a timer of such an object then fires into freed memory (a crash in
QTimerInfoList::activateTimers, seen with the store's thread). So it is switched off, and run from
here.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, Qt, QTimerEvent

LOOK_EVERY_MS = 5_000


class GarbageCollector(QObject):
    """Collects in the thread that made it, when Python's own thresholds say so."""

    def __init__(self) -> None:
        super().__init__()
        self._thresholds = gc.get_threshold()
        gc.disable()
        self._timer = self.startTimer(LOOK_EVERY_MS, Qt.TimerType.VeryCoarseTimer)

    def close(self) -> None:
        """Collect a last time and leave the rest to Python again."""
        self.killTimer(self._timer)
        gc.collect()
        gc.enable()

    def collect_if_due(self) -> None:
        """The oldest generation whose count is over its threshold, with all younger ones."""
        counts = gc.get_count()
        due = [age for age in range(3) if counts[age] > self._thresholds[age]]
        if due:
            gc.collect(due[-1])

    def timerEvent(self, event: QTimerEvent) -> None:
        self.collect_if_due()
