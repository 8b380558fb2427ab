"""A time limit on code that Waymark did not write, such as a chat template from the internet.

A second thread raises in the running one when time is up. If even that does not help, it says why
and ends the process: the window starts it again. Code that sits in one long C call never lets that
thread run; for it a timer below the interpreter prints where it is stuck and ends the process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

# The timer below the interpreter leaves the thread this much time to say it in words.
HEADSTART_S = 2.0
# Exit status of a process that could not get out of a template: seldom used by anything else.
STUCK_EXIT_CODE = 86

_T = TypeVar("_T")


class OutOfTime(BaseException):
    """Raised in the watched thread. Not an Exception, so that nothing catches it in passing."""


def run_limited(work: Callable[[], _T], seconds: float, last_words: str, grace: float = 10.0) -> _T:
    """Return `work()`, or raise OutOfTime after `seconds`.

    If the work still runs `grace` seconds after that, `last_words` go to stderr and the process
    ends with STUCK_EXIT_CODE. Calls may come from any thread, several at once.
    """
    watch = _Watch(threading.get_ident(), seconds, grace, last_words)
    try:
        try:
            # Inside, for on a starved machine a short limit may be over before this returns.
            watch.start()
            return work()
        finally:
            watch.finish()
            if not isinstance(sys.exception(), OutOfTime):
                watch.let_arrive()
    except OutOfTime:
        # It may have come in the middle of finish(). Only one is ever sent, so this call is safe.
        watch.finish()
        raise


class _Watch:
    """One timed call. The lock decides who is first: the work's end or the limit."""

    def __init__(self, thread_id: int, seconds: float, grace: float, last_words: str) -> None:
        self._thread_id = ctypes.c_ulong(thread_id)
        self._limits = (seconds, grace)
        self._last_words = last_words
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._sent = False

    def start(self) -> None:
        _backstop.begin(id(self), sum(self._limits) + HEADSTART_S)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def finish(self) -> None:
        """Stop watching: from here on nothing is sent."""
        with self._lock:
            self._done.set()
        _backstop.end(id(self))

    def let_arrive(self) -> None:
        """Raise here what was sent but has not arrived; it does at the next function call.

        It can't be taken back: CPython 3.11 would keep looking for it at every step from then on.
        """
        if self._sent:
            for _ in range(100):
                time.sleep(0)

    def _watch(self) -> None:
        seconds, grace = self._limits
        if self._done.wait(seconds):
            return
        with self._lock:
            if self._done.is_set():
                return
            self._sent = True
            _interrupt(self._thread_id)
        if self._done.wait(grace):
            return
        print(self._last_words, file=sys.stderr, flush=True)
        os._exit(STUCK_EXIT_CODE)


class _Backstop:
    """faulthandler's timer, of which a process has one: it guards the call that began last, and
    runs until the last of several calls at once has ended. Ending a call twice is harmless."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[int] = set()

    def begin(self, call: int, seconds: float) -> None:
        with self._lock:
            self._calls.add(call)
            if sys.__stderr__ is not None:
                faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)

    def end(self, call: int) -> None:
        with self._lock:
            self._calls.discard(call)
            if not self._calls:
                faulthandler.cancel_dump_traceback_later()


_backstop = _Backstop()


def _interrupt(thread_id: ctypes.c_ulong) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread_id, ctypes.py_object(OutOfTime))
