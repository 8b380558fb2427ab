"""Cancellation: of a request, and of a part of a load in another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from core import watchdog
from core.api.errors import RequestCancelled


class CancelFlag:
    """One request's, never reset, so a late stop can't reach the next request."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Report progress; raise RequestCancelled once cancelled."""
        watchdog.report_progress()
        if self._event.is_set():
            raise RequestCancelled("The request was stopped.")


_GLANCE_S = 0.05
T = TypeVar("T")


class Background(Generic[T]):
    """Runs `build` at once, with a function to call often, which raises RequestCancelled when the
    `with` block ends."""

    def __init__(self, build: Callable[[Callable[[], None]], T], check: Callable[[], None]) -> None:
        self._check_load, self._ended = check, threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="load")
        self._result = self._thread.submit(build, self._check)

    def __enter__(self) -> Background[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.shutdown()

    def check(self) -> None:
        """Raises also what `build` raised."""
        self._check_load()
        if self._result.done():
            self._result.result()

    def result(self) -> T:
        while not wait((self._result,), _GLANCE_S).done:
            self._check_load()
        return self._result.result()

    def _check(self) -> None:
        if self._ended.is_set():
            raise RequestCancelled("The load has ended.")
