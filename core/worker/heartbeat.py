"""The worker's heartbeat: a thread that says every two seconds whether the work moves on.

It runs while kernels compute, for they let go of Python's lock. A process that was stopped, or a
library that holds the lock for ever, silences it; work that hangs without the lock shows in signs
that stay the same.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from core import pulse
from core.api.events import Beat, Event

BEAT_S = 2.0


class Heartbeat:
    """Tells how the work goes; `emit` and `busy` may be called from its thread."""

    def __init__(self, emit: Callable[[Event], None], busy: Callable[[], bool]) -> None:
        self._emit = emit
        self._busy = busy

    def start(self) -> None:
        """Beat from now on, for as long as the process lives."""
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    def beat(self) -> None:
        """Say it once, as an answer to whoever asks."""
        self._emit(
            Beat(busy=self._busy(), signs=pulse.signs(), longest_step_s=pulse.longest_step_s())
        )

    def _run(self) -> None:
        pause = threading.Event()
        # A window that is gone is noticed, and acted upon, by the thread that reads.
        with contextlib.suppress(OSError, ValueError):
            while True:
                self.beat()
                pause.wait(BEAT_S)
