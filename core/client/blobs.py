"""Files that the user chose: opened without blocking, and stored by SHA-256, whole or not at all,
for the owner only."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

from core.api.errors import NotRegularFileError
from core.system.private_files import private_folder, sweep, sync_folder, write_whole

# O_NONBLOCK: opening a pipe would wait for its other end. Windows lacks some of these.
_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _FLAGS |= getattr(os, _name, 0)


def open_regular(path: Path) -> BinaryIO:
    """Raises OSError, or NotRegularFileError for folders, pipes and the like."""
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        # Linux can't open a socket, Windows no folder.
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
    with open_regular(path) as file:
        return file.read()


class BlobStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        private_folder(folder)

    def put(self, data: bytes) -> tuple[str, Path]:
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        if not path.exists():
            private_folder(path.parent)
            write_whole(path, data)
        return digest, path

    def put_file(self, source: Path) -> tuple[str, Path]:
        return self.put(read_regular(source))

    def path(self, digest: str) -> Path:
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ValueError("not a SHA-256 digest")
        return self._folder / digest[:2] / digest

    def sweep(self) -> None:
        """Call while nobody stores."""
        for folder in self._folder.glob("??"):
            sweep(folder)

    def clear(self) -> None:
        self.sweep()
        for file in self._folder.glob("??/*"):
            self.remove(file.name)

    def remove(self, digest: str) -> None:
        path = self.path(digest)
        if path.exists():
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
