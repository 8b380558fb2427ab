"""The window's background tasks: errors are reported, closing cancels them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from core.api.errors import ErrorInfo, SlowFileError, WaymarkError
from core.client.traces import trace_of
from desktop.i18n import tr

T = TypeVar("T")

log = logging.getLogger(__name__)

# A busy disk stores a reply within this time; one that takes longer may never answer.
STEP_LIMIT_S = 10.0
# A sleeping disk answers within this time; a file server that is gone never does.
FILE_LIMIT_S = 30.0


class Tasks:
    def __init__(self, on_error: Callable[[ErrorInfo], None]) -> None:
        self._on_error = on_error
        # asyncio holds only weak references to tasks.
        self._running: set[asyncio.Task[Any]] = set()
        self.closed = False

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any] | None:
        if self.closed:
            work.close()
            return None
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
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
        words = tr("{task} ended with an error ({kind}).")
        words = words.format(task=task.get_name(), kind=type(error).__name__)
        title = tr("Something went wrong")
        self._on_error(ErrorInfo(name="Unexpected", title=title, message=words))


async def answered(read: Callable[[], T]) -> T:
    """Read files in a thread. Raises SlowFileError after FILE_LIMIT_S."""
    future = asyncio.get_running_loop().run_in_executor(None, read)
    try:
        # A thread that waits for a dead file server is left behind.
        return await asyncio.wait_for(future, FILE_LIMIT_S)
    except TimeoutError:
        words = tr("The disk or server did not answer within {seconds:.0f} seconds.")
        raise SlowFileError(words.format(seconds=FILE_LIMIT_S)) from None


async def attempted(
    what: str, step: Callable[[], Awaitable[None] | None], limit_s: float | None = STEP_LIMIT_S
) -> None:
    """If a step of closing fails or takes longer than `limit_s`, log that and go on."""
    try:
        waits = step()
        if inspect.isawaitable(waits):
            task = asyncio.ensure_future(waits)
            ended, _ = await asyncio.wait({task}, timeout=limit_s)
            if not ended:
                task.cancel()
                log.error("Gave up while closing, %s: not done within %g s", what, limit_s)
            elif task.cancelled():
                log.error("Failed while closing, %s: cancelled", what)
            else:
                task.result()
    except Exception as error:
        log.error("Failed while closing, %s: %s", what, trace_of(error))
