"""All changes of the store to the disk, in small steps that tests replace by failing ones. Files
are written under a temporary name, synced and renamed. Folders are 0700 and files 0600: a chat's
text can be guessed from its cache."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from core.system.private_files import (
    DISK_IS_FULL,
    UNFINISHED,
    create,
    open_or_create,
    private_folder,
    sync_folder,
)

Bytes = bytes | bytearray | memoryview
SYNCS_AT_ONCE = 16


class WrongSizeError(OSError):
    pass


@dataclass(frozen=True, slots=True)
class Space:
    free: int
    total: int


class Files:
    """The real file system. Everything may raise OSError."""

    def make_folder(self, folder: Path) -> None:
        private_folder(folder)

    def make_file(self, path: Path) -> None:
        os.close(self._open(path))

    def open_folder(self, folder: Path) -> None:
        """Raise if nothing can be written to a private folder; a full one can be read and deleted
        from."""
        private_folder(folder)
        path = folder / f"{UNFINISHED}probe"
        try:
            self.delete(path)
            os.close(self._create(path))
            self.delete(path)
        except OSError as error:
            if error.errno not in DISK_IS_FULL:
                raise

    def folders(self, folder: Path) -> list[str]:
        with os.scandir(folder) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]

    def names(self, folder: Path) -> list[str]:
        with os.scandir(folder) as found:
            return [entry.name for entry in found if not entry.is_dir(follow_symlinks=False)]

    def read(self, path: Path, num_bytes: int) -> bytearray:
        """Raises WrongSizeError without reading a file of another size."""
        with path.open("rb", buffering=0) as file:
            found = os.fstat(file.fileno()).st_size
            data = bytearray(num_bytes if found == num_bytes else 0)
            at = 0
            while at < len(data) and (count := file.readinto(memoryview(data)[at:])):
                at += count
        if not at == found == num_bytes:
            raise WrongSizeError(f"it has {found:,} bytes instead of {num_bytes:,}")
        return data

    def write(self, contents: Iterable[tuple[Path, Iterable[Bytes]]]) -> None:
        """Write new files, and return when all are durable."""
        with ExitStack() as opened:
            handles: list[int] = []
            for path, parts in contents:
                handle = self._create(path)
                opened.callback(os.close, handle)
                handles.append(handle)
                for part in parts:
                    self._write_all(handle, part)
            if len(handles) == 1:
                self._sync(handles[0])
                return
            # File systems combine syncs that wait at the same time into one.
            with ThreadPoolExecutor(SYNCS_AT_ONCE) as waiting:
                list(waiting.map(self._sync, handles))

    def write_at(self, path: Path, at: int, data: Bytes) -> None:
        handle = self._open(path)
        try:
            os.lseek(handle, at, os.SEEK_SET)
            self._write_all(handle, data)
        finally:
            os.close(handle)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def delete(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def checkpoint(self, connection: sqlite3.Connection) -> bool:
        """Empty an index's write-ahead log; False if that could not be done."""
        ((busy, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    def free(self, folder: Path) -> Space:
        usage = shutil.disk_usage(folder)
        return Space(usage.free, usage.total)

    def sync_folder(self, folder: Path) -> None:
        sync_folder(folder, self._sync)

    def _write_all(self, handle: int, data: Bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._write(handle, view[:_MAX_WRITE]) :]

    # Tests replace these steps, and `replace`, `delete`, `commit` and `checkpoint`.

    def _create(self, path: Path) -> int:
        return create(path)

    def _open(self, path: Path) -> int:
        return open_or_create(path)

    def _write(self, handle: int, data: memoryview) -> int:
        return os.write(handle, data)

    def _sync(self, handle: int) -> None:
        os.fsync(handle)


# macOS refuses to write 2 GiB or more in one call.
_MAX_WRITE = 2**26
