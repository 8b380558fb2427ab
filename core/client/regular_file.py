"""Opens a file that the user named, without ever waiting for what is no file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from core.api.errors import NotRegularFileError

# Opening a pipe waits for its other end, unless it is asked not to. Windows lacks some of these.
_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _FLAGS |= getattr(os, _name, 0)


def open_regular(path: Path) -> BinaryIO:
    """Open an existing file for reading. A file server that is gone may still block for good.

    Raises NotRegularFileError for folders, pipes, devices and sockets, OSError as the system does.
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        # Linux opens no socket, Windows no folder.
        if error.errno == errno.ENXIO or path.is_dir():
            raise NotRegularFileError(folder=path.is_dir()) from None
        raise
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise NotRegularFileError(folder=stat.S_ISDIR(mode))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """All bytes of a file. Raises like `open_regular`."""
    with open_regular(path) as file:
        return file.read()
