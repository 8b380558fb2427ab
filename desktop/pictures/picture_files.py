"""Reads files that may be pictures: regular ones only, within a size."""

from __future__ import annotations

import os
from pathlib import Path

from core.api.errors import ImageTooLargeError, NotRegularFileError
from core.client.blobs import open_regular
from desktop.words.pictures import (
    EMPTY,
    FOLDER,
    NO_FILE,
    NO_PICTURE,
    not_readable,
    too_large,
)

# A file larger than this is no picture anyone looks at, and reading it would hold up the rest.
LARGEST_FILE_BYTES = 256 * 2**20
# How the files that the engine may read begin; the rest is refused without asking it.
BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*")


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
