"""Reads files that may be pictures: regular ones only, within a size and a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from core.api.errors import ImageTooLargeError, NotRegularFileError, SlowFileError
from core.client.regular_file import open_regular
from desktop.words.pictures import (
    EMPTY,
    FOLDER,
    NO_FILE,
    NO_PICTURE,
    no_answer,
    not_readable,
    too_large,
)

T = TypeVar("T")

# A file larger than this is no picture anyone looks at, and reading it would hold up the rest.
LARGEST_FILE_BYTES = 256 * 2**20
# A disk that sleeps answers within this time; a file server that is gone never does.
READ_PATIENCE_S = 30.0
# How the files that the engine may read begin; the rest is refused without asking it.
BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*")


async def answered(work: Callable[[], T]) -> T:
    """What a function returns that reads a file, in a thread. Raises SlowFileError."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        # The thread of a file server that is gone stays behind.
        return await asyncio.wait_for(future, READ_PATIENCE_S)
    except TimeoutError:
        raise SlowFileError(no_answer(READ_PATIENCE_S)) from None


def read_picture_file(path: Path) -> bytes:
    """A picture's bytes. Raises OSError, NotRegularFileError, ImageTooLargeError."""
    with open_regular(path) as file:
        data = file.read(LARGEST_FILE_BYTES + 1)
    if len(data) > LARGEST_FILE_BYTES:
        raise ImageTooLargeError(f"It is {too_large(LARGEST_FILE_BYTES)}.")
    return data


def why_no_picture(path: Path) -> str:
    """Why a file can't be a picture, as the end of a sentence; '' if it may be one."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            beginning = file.read(4)
    except NotRegularFileError as error:
        return FOLDER if error.folder else NO_FILE
    except OSError as error:
        return not_readable(error.strerror or type(error).__name__)
    if size > LARGEST_FILE_BYTES:
        return too_large(LARGEST_FILE_BYTES)
    if not size:
        return EMPTY
    return "" if beginning.startswith(BEGINNINGS) else NO_PICTURE
