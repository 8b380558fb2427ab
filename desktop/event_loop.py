"""Run the app's event loop: garbage is collected in its thread, and a lost display ends it safely.

Python's cycle collector runs in whichever thread makes the next object, and would there destroy Qt
objects left in reference cycles; a timer of such an object then fires into freed memory (a crash in
QTimerInfoList::activateTimers, seen with the store's thread).

If the display is lost (the X server died, a remote session was cut), Qt leaves its event loop in
the middle of whatever is awaited. The loop still runs a few events at a time, which is enough to
store everything and end the engine.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Coroutine
from typing import Any, NoReturn

from PySide6.QtCore import QObject, Qt, QTimerEvent, qInstallMessageHandler
from qasync import QEventLoop

from desktop.i18n import tr

COLLECT_EVERY_MS = 5_000
EXIT_LOST_DISPLAY = 4
# Closing takes up to 8 s: 3 to forget deleted chats, 5 for the worker to write its caches.
CLOSING_LIMIT_S = 20.0
# Without a display Qt returns from its loop at once; this keeps a processor from spinning.
PAUSE_S = 0.01


class GarbageCollector(QObject):
    """Replaces Python's automatic collection by one in the thread that made this object."""

    def __init__(self) -> None:
        super().__init__()
        self._thresholds = gc.get_threshold()
        gc.disable()
        self._timer = self.startTimer(COLLECT_EVERY_MS, Qt.TimerType.VeryCoarseTimer)

    def close(self) -> None:
        self.killTimer(self._timer)
        gc.collect()
        gc.enable()

    def collect_if_due(self) -> None:
        counts = gc.get_count()
        due = [age for age in range(3) if counts[age] > self._thresholds[age]]
        if due:
            gc.collect(due[-1])

    def timerEvent(self, event: QTimerEvent) -> None:
        self.collect_if_due()


class DisplayLostError(Exception):
    """Qt left its event loop before the app was done; the app has been closed since."""


def run(loop: QEventLoop, life: Coroutine[Any, Any, int]) -> int:
    """Run `life` and return its result.

    Raises DisplayLostError if Qt leaves its loop, after cancelling `life` and running it to its
    end.
    """
    task = asyncio.ensure_future(life, loop=loop)
    if _run_until_done(loop, task):
        return task.result()
    # From here on Qt would repeat its message at every turn.
    qInstallMessageHandler(lambda *_: None)
    task.cancel()
    end = time.monotonic() + CLOSING_LIMIT_S
    while not _run_until_done(loop, task) and time.monotonic() < end:
        time.sleep(PAUSE_S)
    raise DisplayLostError


def _run_until_done(loop: QEventLoop, task: asyncio.Task[int]) -> bool:
    """Run the loop until the task is done or Qt leaves the loop; returns whether it is done."""

    def stop(_task: asyncio.Task[int]) -> None:
        loop.stop()

    task.add_done_callback(stop)
    try:
        loop.run_forever()
    finally:
        task.remove_done_callback(stop)
    return task.done()


def end_without_display() -> NoReturn:
    """Print why and end the process at once: taking Qt down would make Xlib abort."""
    said = tr("Waymark has lost its display and has closed. Your chats are stored.")
    print(said, file=sys.stderr, flush=True)
    os._exit(EXIT_LOST_DISPLAY)
