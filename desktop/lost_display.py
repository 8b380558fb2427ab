"""Runs the app's one coroutine to its end, also when the display goes away under it.

Qt's answer to a display that is gone (the X server died, a remote session was cut) is to leave its
event loop at once, in the middle of whatever was awaited. The loop itself still works, a few events
at a time, and that is enough to store everything and end the engine. Nothing can be shown any more.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Coroutine
from typing import Any, NoReturn

from PySide6.QtCore import qInstallMessageHandler
from qasync import QEventLoop

EXIT_LOST_DISPLAY = 4
# Closing takes up to 8 s: 3 to forget deleted chats, 5 for the worker to write what it has read.
PATIENCE_S = 20.0
# Without a display Qt returns from its loop at once; this keeps a processor from spinning.
PAUSE_S = 0.01
WORDS = "Waymark has lost its display and has closed. Your chats are stored."


class DisplayLostError(Exception):
    """Qt has left its event loop before the app was done; the app has been closed since."""


def run(loop: QEventLoop, life: Coroutine[Any, Any, int]) -> int:
    """Run `life` and return its result.

    Raises DisplayLostError when Qt leaves its loop: then `life` is cancelled and run to its end.
    """
    task = asyncio.ensure_future(life, loop=loop)
    if _run_on(loop, task):
        return task.result()
    # From here on Qt would repeat itself at every turn.
    qInstallMessageHandler(lambda *_: None)
    task.cancel()
    end = time.monotonic() + PATIENCE_S
    while not _run_on(loop, task) and time.monotonic() < end:
        time.sleep(PAUSE_S)
    raise DisplayLostError


def _run_on(loop: QEventLoop, task: asyncio.Task[int]) -> bool:
    """Let the loop run until the task is done or Qt leaves it; says whether the task is done."""

    def stop(_task: asyncio.Task[int]) -> None:
        loop.stop()

    task.add_done_callback(stop)
    try:
        loop.run_forever()
    finally:
        task.remove_done_callback(stop)
    return task.done()


def end_at_once() -> NoReturn:
    """Say so and end the process: X's own library would end it ruder once Qt is taken down."""
    print(WORDS, file=sys.stderr, flush=True)
    os._exit(EXIT_LOST_DISPLAY)
