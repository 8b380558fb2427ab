"""Every coroutine the window starts: named, held until it ends, its errors said, ended at closing.

The one place that calls ensure_future in the window.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from core.api.errors import ErrorInfo, WaymarkError
from core.client.traces import trace_of

log = logging.getLogger(__name__)

# A busy disk stores a reply within this time; one that takes longer may never answer.
STEP_LIMIT_S = 10.0


class Tasks:
    """The running tasks; `on_error` is told of what a task raised."""

    def __init__(self, on_error: Callable[[ErrorInfo], None]) -> None:
        self._on_error = on_error
        # asyncio itself holds tasks weakly.
        self._running: set[asyncio.Task[Any]] = set()
        self.closed = False

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any] | None:
        """Start a coroutine; after `close` it is dropped."""
        if self.closed:
            work.close()
            return None
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel all that still runs and wait for it."""
        self.closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if isinstance(error, WaymarkError):
            self._on_error(error.info())
            return
        log.error("%s failed: %s", task.get_name(), trace_of(error))
        words = f"{task.get_name()} ended with an error ({type(error).__name__})."
        self._on_error(ErrorInfo(name="Unexpected", title="Something went wrong", message=words))


async def attempted(
    what: str, step: Callable[[], Awaitable[None] | None], limit_s: float | None = STEP_LIMIT_S
) -> None:
    """Carry out a step of closing; one that fails or hangs keeps no other from being done.

    After `limit_s` it is cancelled and left alone; None is for steps that have limits inside.
    """
    try:
        waits = step()
        if inspect.isawaitable(waits):
            task = asyncio.ensure_future(waits)
            ended, _ = await asyncio.wait({task}, timeout=limit_s)
            if ended:
                task.result()
            else:
                task.cancel()
                log.error("Given up while closing, %s: not done within %g s", what, limit_s)
    except Exception as error:
        log.error("Failed while closing, %s: %s", what, trace_of(error))
