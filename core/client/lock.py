"""Locks on files, which the system releases when the process ends: one app per data folder."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from core.api.errors import DataFolderBusyError
from core.system.private_files import open_or_create, private_folder

# Errors of systems for a lock that is taken. A network's file system may have no locks at all.
BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)


class DataFolderLock:
    """Raises DataFolderBusyError, OSError."""

    def __init__(self, folder: Path) -> None:
        private_folder(folder, given=True)
        handle = lock_file(folder / "lock")
        if handle is None:
            raise DataFolderBusyError(
                f"Another Waymark uses {folder}. Close it first, or choose another data folder."
            )
        self._handle = handle

    def release(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def lock_file(path: Path) -> int | None:
    """The locked file's handle, which unlocks it when closed; None if it was locked already. Raises
    OSError, also on file systems without locks."""
    handle = open_or_create(path, os.O_RDWR)
    try:
        _lock(handle)
    except OSError as error:
        os.close(handle)
        if error.errno not in BUSY:
            raise
        return None
    return handle


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
