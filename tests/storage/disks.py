"""Disks for tests that fail or die at a chosen step, and what must hold of a store at any time."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from core.storage.files import Files, Space
from core.storage.store import DiskStore

PLENTY = 2**40
# What a transaction takes of a disk that fills up.
COMMIT_BYTES = 4_096


class RoomyFiles(Files):
    """A disk whose free space and speed don't depend on the machine that runs the tests."""

    def __init__(self, free: int = PLENTY) -> None:
        self.space = Space(free, PLENTY)

    def free(self, folder: Path) -> Space:
        return self.space

    def _sync(self, handle: int) -> None:
        """Not waited for: no test cuts the power."""


class DiedError(BaseException):
    """The process was killed: no handler may run its cleaning up, as none would."""


class FailingFiles(RoomyFiles):
    """Counts the steps that change the disk; lets one of them fail or kill.

    A killed process changes nothing any more; a write in which it dies gets half of its bytes down,
    and a transaction none of its changes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.num_steps = 0
        self.die_at: int | None = None
        self.fail_at: int | None = None
        self.stays_broken = False
        self.room: int | None = None  # bytes until the disk is full

    def _step(self) -> bool:
        """Count one step; whether the process dies in it."""
        self.num_steps += 1
        if self.num_steps == self.fail_at or (self.stays_broken and self._is_past_failure()):
            raise OSError(errno.EIO, "Input/output error")
        if self.die_at is not None and self.num_steps > self.die_at:
            raise DiedError
        return self.num_steps == self.die_at

    def _is_past_failure(self) -> bool:
        return self.fail_at is not None and self.num_steps > self.fail_at

    def _take(self, num_bytes: int) -> int:
        """How many of these bytes the disk has room for."""
        if self.room is None:
            return num_bytes
        taken = min(num_bytes, self.room)
        self.room -= taken
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        return taken

    def _create(self, path: Path) -> int:
        self._die_if(self._step())
        return super()._create(path)

    def _open(self, path: Path) -> int:
        self._die_if(self._step())
        return super()._open(path)

    def _write(self, handle: int, data: memoryview) -> int:
        dies = self._step()
        data = data[: self._take(len(data))]
        count = super()._write(handle, data[: len(data) // 2] if dies else data)
        self._die_if(dies)
        return count

    def _sync(self, handle: int) -> None:
        self._die_if(self._step())

    def replace(self, source: Path, target: Path) -> None:
        self._die_if(self._step())
        super().replace(source, target)

    def delete(self, path: Path) -> None:
        self._die_if(self._step())
        super().delete(path)

    def commit(self, connection: sqlite3.Connection) -> None:
        self._die_if(self._step())
        if self._take(COMMIT_BYTES) < COMMIT_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().commit(connection)

    def checkpoint(self, connection: sqlite3.Connection) -> bool:
        self._die_if(self._step())
        return super().checkpoint(connection)

    @staticmethod
    def _die_if(dies: bool) -> None:
        if dies:
            raise DiedError


def check_whole(blobs: DiskStore) -> None:
    """Assert that index and files agree, and that nothing is held in vain."""
    if blobs._index is None:
        assert not any(blobs.num_bytes(path.name) for path in blobs.folder.glob("*"))
        return
    assert blobs._index.ask("PRAGMA integrity_check") == [("ok",)]
    assert blobs._index.ask("PRAGMA foreign_key_check") == []
    for pool, num_bytes in blobs._index.ask("SELECT pool, sum(num_bytes) FROM blobs GROUP BY pool"):
        assert blobs.num_bytes(pool) == num_bytes
    assert set(blobs._listing()) == set(blobs._index.ask("SELECT pool, name FROM blobs"))
    unowned = "SELECT 1 FROM blobs WHERE lasting AND id NOT IN (SELECT blob FROM owners)"
    assert not blobs._index.ask(unowned)
    needy = """SELECT 1 FROM blobs JOIN needs ON blob = blobs.id JOIN blobs AS other
        ON other.id = needed WHERE other.lasting OR other.pool != blobs.pool"""
    assert not blobs._index.ask(needy)
