"""How long the window's loop is kept from looking for input: H8 in numbers.

Between two returns to Qt's loop the window answers nobody. The watch takes the processor time of
the window's own thread, not the time on the wall: other programs may have the processors in
between, and that is no fault of ours. Two things cost no processor time of this thread and keep the
loop waiting all the same: another thread of ours that holds Python's lock, whose processor time is
taken too, with a wider bound, and a call that never returns, for which the wall's clock has one.

Time that the host of a virtual machine takes away counts as processor time too. Such a stop is
chance and a block of ours is not, so tests/conftest.py has a test that fails here run again.

Qt has loops of several makes. In GLib's, waiting and working can't be told apart, so that Qt is
asked for its own.
"""

from __future__ import annotations

import gc
import os
import time
from types import TracebackType

from PySide6.QtCore import QAbstractEventDispatcher, QObject

# Qt asks when the application is made, which is after all tests were imported.
os.environ["QT_NO_GLIB"] = "1"

LONGEST_S = 0.100
# Not all that other threads take is under Python's lock, and on a busy machine it takes longer.
ELSEWHERE = 4
# Nothing of ours waits so long for a disk or a device, however busy the machine is.
LONGEST_WALL_S = 20.0


class LoopWatch(QObject):
    """Watches the loop of its thread from `with` on, and fails at its end."""

    def __init__(self, bound: float = LONGEST_S) -> None:
        super().__init__()
        self._bound = bound
        self.longest = self.longest_elsewhere = self.longest_wall = 0.0
        self.turns = 0
        # Named from outside, so that a failure says what was going on.
        self.doing = self.longest_doing = ""

    def __enter__(self) -> LoopWatch:
        # The window collects garbage at its own times (desktop.app).
        self._collects = gc.isenabled()
        gc.disable()
        dispatcher = QAbstractEventDispatcher.instance()
        assert dispatcher is not None
        assert "Glib" not in dispatcher.metaObject().className(), "QT_NO_GLIB came too late"
        self._dispatcher = dispatcher
        self._begin()
        dispatcher.awake.connect(self._on_awake)
        dispatcher.aboutToBlock.connect(self._on_block)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        self._dispatcher.awake.disconnect(self._on_awake)
        self._dispatcher.aboutToBlock.disconnect(self._on_block)
        if self._collects:
            gc.enable()
        if error is None:
            assert self.longest <= self._bound, self.words()
            assert self.longest_elsewhere <= ELSEWHERE * self._bound, self.words()
            assert self.longest_wall <= LONGEST_WALL_S, self.words()

    def words(self) -> str:
        return (
            f"the loop was blocked for {1e3 * self.longest:.0f} ms during {self.longest_doing!r} "
            f"(meanwhile other threads took {1e3 * self.longest_elsewhere:.0f} ms at most, and "
            f"{1e3 * self.longest_wall:.0f} ms went by at most; {self.turns} turns)"
        )

    def _begin(self) -> None:
        self._thread, self._process = time.thread_time(), time.process_time()
        self._wall = time.monotonic()
        self._active = True

    def _end(self) -> None:
        """A turn of the loop is over: the window could look for input now."""
        if not self._active:
            return
        self._active = False
        self.turns += 1
        thread = time.thread_time() - self._thread
        elsewhere = time.process_time() - self._process - thread
        if thread > self.longest:
            self.longest, self.longest_doing = thread, self.doing
        self.longest_elsewhere = max(self.longest_elsewhere, elsewhere)
        self.longest_wall = max(self.longest_wall, time.monotonic() - self._wall)

    def _on_awake(self) -> None:
        self._end()
        self._begin()

    def _on_block(self) -> None:
        self._end()
