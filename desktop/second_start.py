"""How a second start has the window of the first one raised: a file appears, and is taken away.

The first start watches a folder of its own inside the data folder, closed to other users. A second
one puts an empty file there; that it is gone again is the answer. Nothing is ever read from it, so
all that can be asked is to be seen. There is no socket, and nobody listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject

from core.system.private_files import create, private_folder

PATIENCE_S = 1.0
LOOK_AGAIN_S = 0.02
# Whatever else lies in the folder is somebody's, and is left alone.
ASKING = re.compile(r"raise-[0-9]{1,10}")


def asking_folder(data: Path) -> Path:
    """Where a second start asks."""
    return data / "second-start"


class SecondStarts(QObject):
    """Calls `raised` whenever somebody asks, from construction to `close`."""

    def __init__(self, data: Path, raised: Callable[[], None]) -> None:
        super().__init__()
        self._folder = asking_folder(data)
        self._raised = raised
        self._watcher = QFileSystemWatcher(self)
        # Where there can be no such folder a second start says that Waymark is open, as ever.
        with contextlib.suppress(OSError):
            private_folder(self._folder)
            self._take()
            self._watcher.addPath(str(self._folder))
        self._watcher.directoryChanged.connect(self._on_change)

    def close(self) -> None:
        """Answer nobody any more."""
        self._watcher.deleteLater()

    def _on_change(self) -> None:
        if self._take():
            self._raised()

    def _take(self) -> bool:
        """Take away what was put there; says whether there was anything."""
        taken = False
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in filter(_asks, entries):
                with contextlib.suppress(OSError):
                    Path(entry.path).unlink()
                    taken = True
        return taken


def _asks(entry: os.DirEntry[str]) -> bool:
    """Whether this is what a second start puts there, and nothing of anyone else's."""
    with contextlib.suppress(OSError):
        is_file = entry.is_file(follow_symlinks=False)
        empty = is_file and entry.stat(follow_symlinks=False).st_size == 0
        return empty and ASKING.fullmatch(entry.name) is not None
    return False


async def ask_to_raise(data: Path) -> bool:
    """Ask the Waymark that holds this data folder to show its window; says whether it has."""
    asking = asking_folder(data) / f"raise-{os.getpid()}"
    try:
        os.close(create(asking))
    except OSError:
        return False
    end = time.monotonic() + PATIENCE_S
    while asking.exists():
        if time.monotonic() > end:
            with contextlib.suppress(OSError):
                asking.unlink()
            return False
        await asyncio.sleep(LOOK_AGAIN_S)
    return True
