"""The only place of the disk tier that touches the file system, in steps small enough to fail one.

A file is written under a temporary name, synced and renamed, so it appears whole or not at all.
Folders are 0700 and files 0600: what a chat says can be guessed from its cache. Tests put failing
disks and sudden deaths into the small steps; knows nothing of what the bytes mean.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Starts every temporary name; what carries it when a folder is opened was never finished.
UNFINISHED = ".new-"
_TICK = 1_000  # nanoseconds; NTFS keeps steps of 100
Bytes = bytes | bytearray | memoryview


class FileTooLargeError(OSError):
    """A file has more bytes than it may have; it was not read."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A plain file in a folder; `used` is its modification time in nanoseconds."""

    name: str
    num_bytes: int
    used: int


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes of a file system: free to this user, and all there are."""

    free: int
    total: int


class Files:
    """The real file system. Everything may raise OSError."""

    _last_used = 0  # nanoseconds

    def make_folder(self, folder: Path) -> None:
        """Make a folder, with those above it, that only its owner may look into."""
        # mkdir gives `mode` to the last folder alone.
        for missing in reversed([each for each in folder.parents if not each.exists()]):
            missing.mkdir(mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def folders(self, folder: Path) -> list[str]:
        """The names of the folders in `folder`; none where it doesn't exist."""
        if not folder.exists():
            return []
        with os.scandir(folder) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]

    def probe(self, folder: Path) -> None:
        """Raise unless a file can be made in `folder`."""
        path = folder / f"{UNFINISHED}probe"
        os.close(self._create(path))
        self.delete(path)

    def list(self, folder: Path) -> list[FileEntry]:
        """The plain files of a folder; links, folders and devices are left out."""
        entries = []
        with os.scandir(folder) as found:
            for entry in found:
                if entry.is_file(follow_symlinks=False):
                    facts = entry.stat(follow_symlinks=False)
                    entries.append(FileEntry(entry.name, facts.st_size, facts.st_mtime_ns))
        return entries

    def read(self, path: Path, max_bytes: int) -> bytearray:
        """The whole file; raises FileTooLargeError before it takes more memory than `max_bytes`."""
        with path.open("rb", buffering=0) as file:
            num_bytes = os.fstat(file.fileno()).st_size
            if num_bytes > max_bytes:
                raise FileTooLargeError(f"{num_bytes:,} bytes instead of {max_bytes:,}")
            data = bytearray(num_bytes)
            at = 0
            while at < num_bytes and (count := file.readinto(memoryview(data)[at:])):
                at += count
        return data[:at] if at < num_bytes else data

    def write(self, path: Path, parts: Iterable[Bytes]) -> None:
        """Put a file there whole, also after a power cut; nothing stays behind on failure."""
        unfinished = path.parent / (UNFINISHED + path.name)
        try:
            self._write_new(unfinished, parts)
            self._replace(unfinished, path)
        except OSError:
            self._clean_up(unfinished)
            raise
        self.sync_folder(path.parent)

    def append(self, path: Path, at: int, data: Bytes, sync: bool) -> None:
        """Write `data` at byte `at`, over what may be there; the file is made when it is missing.

        With `sync` it survives a power cut once this returns.
        """
        is_new = not path.exists()
        handle = self._open(path)
        try:
            os.lseek(handle, at, os.SEEK_SET)
            self._write_all(handle, data)
            if sync:
                self._sync(handle)
        finally:
            os.close(handle)
        if sync and is_new:
            self.sync_folder(path.parent)

    def put_in_place(self, unfinished: Path, path: Path) -> None:
        """Give a file that was appended to its name; it counts as used now."""
        self._replace(unfinished, path)
        with contextlib.suppress(OSError):  # the order is a wish, the file is not
            self.mark_used(path)

    def delete(self, path: Path) -> None:
        """Remove a file; one that is not there is as good."""
        path.unlink(missing_ok=True)

    def delete_folder(self, folder: Path) -> None:
        """Remove an empty folder."""
        folder.rmdir()

    def mark_used(self, path: Path) -> None:
        """Set the modification time to now, and later than any that was set before.

        The system's own times stand still for up to 16 ms: two files of one moment would have no
        order, and after a restart the wrong one of them might have to go.
        """
        self._last_used = max(time.time_ns(), self._last_used + _TICK)
        os.utime(path, ns=(self._last_used, self._last_used))

    def free(self, folder: Path) -> Space:
        """Room on the file system that `folder` is on."""
        usage = shutil.disk_usage(folder)
        return Space(usage.free, usage.total)

    def sync_folder(self, folder: Path) -> None:
        """Make renames and removals in `folder` survive a power cut, where the platform can."""
        if sys.platform == "win32":
            return  # a folder can't be opened there; NTFS logs names by itself
        handle = os.open(folder, os.O_RDONLY)
        try:
            self._sync(handle)
        except OSError as error:
            # Some network file systems sync files and no folders.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(handle)

    def _write_new(self, path: Path, parts: Iterable[Bytes]) -> None:
        handle = self._create(path)
        try:
            for part in parts:
                self._write_all(handle, part)
            self._sync(handle)
        finally:
            os.close(handle)
        with contextlib.suppress(OSError):  # the order is a wish, the file is not
            self.mark_used(path)

    def _write_all(self, handle: int, data: Bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._write(handle, view[:_MAX_WRITE]) :]

    def _clean_up(self, unfinished: Path) -> None:
        try:
            self.delete(unfinished)
        except OSError:
            return  # the next start removes it

    # The steps that tests let fail, one by one.

    def _create(self, path: Path) -> int:
        return os.open(path, _FLAGS | os.O_TRUNC, 0o600)

    def _open(self, path: Path) -> int:
        return os.open(path, _FLAGS, 0o600)

    def _write(self, handle: int, data: memoryview) -> int:
        return os.write(handle, data)

    def _sync(self, handle: int) -> None:
        os.fsync(handle)

    def _replace(self, source: Path, target: Path) -> None:
        source.replace(target)


# macOS refuses to write 2 GiB or more in one call.
_MAX_WRITE = 2**26
# Windows opens files as text unless told otherwise.
_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
