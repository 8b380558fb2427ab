"""Reads what the user named in a thread, within a time: its disk may never answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from core.api.errors import SlowFileError
from desktop.words.pictures import no_answer

T = TypeVar("T")

# A disk that sleeps answers within this time; a file server that is gone never does.
READ_PATIENCE_S = 30.0


async def answered(work: Callable[[], T]) -> T:
    """Run a function that reads a file in a thread. Raises SlowFileError."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        # The thread of a file server that is gone stays behind.
        return await asyncio.wait_for(future, READ_PATIENCE_S)
    except TimeoutError:
        raise SlowFileError(no_answer(READ_PATIENCE_S)) from None
