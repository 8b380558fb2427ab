from __future__ import annotations

import threading

from core import watchdog
from core.api.errors import RequestCancelled


class CancelFlag:
    """Belongs to one request and is never reset, so a late stop can't reach the next request."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Report progress; raise RequestCancelled if the request was cancelled."""
        watchdog.report_progress()
        if self._event.is_set():
            raise RequestCancelled("The request was stopped.")
