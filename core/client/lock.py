"""One app per data folder: a lock file that the system releases when the process ends."""

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
    """Holds `folder` until `release`. Raises DataFolderBusyError, OSError."""

    def __init__(self, folder: Path) -> None:
        private_folder(folder, given=True)
        self._handle = open_or_create(folder / "lock", os.O_RDWR)
        try:
            _lock(self._handle)
        except OSError as error:
            self.release()
            if error.errno not in BUSY:
                raise
            raise DataFolderBusyError(
                f"Another Waymark uses {folder}. Close it first, or choose another data folder."
            ) from None

    def release(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
