"""The store on disk: blobs by name in pools, with owners and a byte limit, safe to kill.

A file is in place before the index names it, and goes after the index forgets it; the next opening
removes leftovers. Readers verify blobs. One thread uses a store; a lock elsewhere keeps other
processes out.
"""

from __future__ import annotations

import errno
import logging
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.storage import rows
from core.storage.files import Bytes, Files
from core.storage.index import FIND_NOTE, INDEX, DamagedIndexError, Index
from core.storage.rows import NAMED, NOWHERE, TILES, WEIGHTS, Blob, Place
from core.system.private_files import UNFINISHED

log = logging.getLogger(__name__)

# Other programs, and the chats, must still be able to write. A twentieth is what file systems
# themselves keep in reserve.
DEFAULT_FLOOR = 2**30
FLOOR_SHARE = 20
MOST_NOTES = 64  # of a kind
_PART = f"{UNFINISHED}blob"
_POOL = re.compile(rf"[0-9a-f]{{64}}|{WEIGHTS}|{TILES}")
_OURS = re.compile(
    rf"([a-z]+-)?[0-9a-f]{{64}}(-[0-9]+)?\.(safetensors|tiles)|{re.escape(UNFINISHED)}.*"
)
_NEEDED = f"""SELECT name FROM blobs WHERE id IN (
    SELECT needed FROM needs WHERE blob = (SELECT id FROM blobs WHERE {NAMED}))"""
_BEGINNING = "SELECT name FROM blobs WHERE pool = ? AND name >= ? AND name < ?"
_NOTE = "REPLACE INTO notes (kind, key, value) VALUES (?, ?, ?)"
_TRIM = """DELETE FROM notes WHERE kind = ? AND id NOT IN
    (SELECT id FROM notes WHERE kind = ? ORDER BY id DESC LIMIT ?)"""

Writing = tuple[Blob, Iterable[Bytes]]


class DiskStore:
    """One folder for each pool. `floor` bytes and a twentieth of the file system stay free. A
    folder that can't be used makes a `closed`, empty store; `failure` says why. Changes may raise
    OSError and leave the store consistent."""

    def __init__(
        self, folder: Path, floor: int = DEFAULT_FLOOR, files: Files | None = None
    ) -> None:
        self.folder = folder
        self.failure: OSError | None = None
        self.files = files if files is not None else Files()
        self._floor = floor
        self._index: Index | None = None
        self._newest = NOWHERE  # the end of the chain that is being written
        self._sums: dict[str, int] = {}  # bytes by pool, as far as they are known
        self._last_used = 0
        self._littered = True  # there may be files that the index doesn't name
        self.open()

    @property
    def closed(self) -> bool:
        return self._index is None

    def open(self) -> None:
        self.close()
        try:
            self.files.open_folder(self.folder)
            self._index = Index(self.folder / INDEX, self.files)
        except OSError as error:
            self.failure = error
            return
        with suppress(OSError):  # what could not be deleted is never read, and deleted later
            self._mend()

    def close(self, failure: OSError | None = None) -> None:
        if self._index is not None:
            self._index.close()
        self._index, self.failure = None, failure
        self._newest, self._littered = NOWHERE, True
        self._sums.clear()

    def __del__(self) -> None:
        # A connection refers to itself, so it would stay open until garbage collection.
        self.close()

    # -- what is held

    def num_bytes(self, pool: str) -> int:
        if pool not in self._sums:
            found = self._ask("SELECT coalesce(sum(num_bytes), 0) FROM blobs WHERE pool = ?", pool)
            if not found:
                return 0
            self._sums[pool] = int(found[0][0])
        return self._sums[pool]

    def size(self, pool: str, name: str) -> int | None:
        found = self._ask(f"SELECT num_bytes FROM blobs WHERE {NAMED}", pool, name)
        return int(found[0][0]) if found else None

    def needed_by(self, pool: str, name: str) -> list[str]:
        return [str(name) for (name,) in self._ask(_NEEDED, pool, name)]

    def beginning(self, pool: str, words: str) -> list[str]:
        return [str(name) for (name,) in self._ask(_BEGINNING, pool, words, f"{words}\x7f")]

    def path(self, pool: str, name: str) -> Path:
        return self.folder / pool / name

    def read(self, pool: str, name: str) -> bytearray:
        """Unverified bytes. Raises OSError."""
        return self.files.read(self.path(pool, name), self.size(pool, name) or 0)

    def touch(self, pool: str, name: str) -> None:
        with suppress(OSError), self._change() as index:
            index.ask(f"UPDATE blobs SET used = ? WHERE {NAMED}", self._now(), pool, name)

    def own(self, owner: str, pool: str, names: Iterable[str]) -> None:
        with self._change() as index:
            for name in names:
                rows.own(index, owner, (pool, name))

    # -- writing

    def put(
        self, blob: Blob, parts: Iterable[Bytes], cap: int, before: Sequence[Writing] = ()
    ) -> bool:
        """Write a blob durably, with blobs `before` it that it needs: all or none. False if the
        pool's `cap` has no room."""
        together = [*before, (blob, parts)]
        blobs = [each for each, _ in together]
        num_bytes = sum(each.num_bytes for each in blobs)
        needs = tuple(name for each in blobs for name in each.needs)
        if not self.make_room(replace(blob, num_bytes=num_bytes, needs=needs), cap):
            return False
        unfinished = [(blob.pool, f"{_PART}-{number}") for number in range(len(blobs))]
        self._unlink(unfinished)
        placed: list[Place] = []
        try:
            files = [self.path(*place) for place in unfinished]
            self.files.write(zip(files, (content for _, content in together), strict=True))
            for each, file in zip(blobs, files, strict=True):
                self.files.replace(file, self.path(each.pool, each.name))
                placed.append((each.pool, each.name))
            self.files.sync_folder(self.folder / blob.pool)
            self._name(blobs, sync=True)
        except OSError:
            with suppress(OSError):  # else the next sweep deletes them
                self._unlink([*unfinished, *placed])
            raise
        return True

    def make_room(self, blob: Blob, cap: int) -> bool:
        """Evicts nothing if the blob can't fit."""
        if self._littered:
            self._sweep()
        self.files.make_folder(self.folder / blob.pool)
        over_cap = self.num_bytes(blob.pool) + blob.num_bytes - cap
        excess = max(over_cap, self.excess(blob.num_bytes))
        if excess <= 0:
            return True
        keep = [(blob.pool, name) for name in blob.needs]
        keep.append(self._newest if blob.lasting else NOWHERE)
        fits = self._evict(blob.pool, excess, keep)
        # Deleting may free less than a file's size: snapshots and hard links share blocks.
        if self.excess(blob.num_bytes) > 0:
            raise OSError(errno.ENOSPC, self._too_full())
        return fits

    def excess(self, num_bytes: int) -> int:
        """Bytes by which writing so many would leave too few free; at most 0 if enough stay."""
        space = self.files.free(self.folder)
        return num_bytes + max(self._floor, space.total // FLOOR_SHARE) - space.free

    def share_of_disk(self, share: float, pool: str = "") -> int:
        folder = self.folder.absolute()
        there = next(path for path in (folder, *folder.parents) if path.exists())
        return int((shutil.disk_usage(there).free + self.num_bytes(pool)) * share)

    def write_part(self, pool: str, at: int, data: Bytes) -> None:
        """Write into the pool's unfinished blob, which `adopt` or `drop_part` ends."""
        self.files.write_at(self.part(pool), at, data)

    def drop_part(self, pool: str) -> None:
        self.files.delete(self.part(pool))

    def part(self, pool: str) -> Path:
        return self.path(pool, _PART)

    def adopt(self, blob: Blob, sync: bool = False) -> None:
        """Move the unfinished blob to its place; with `sync` that survives a power cut."""
        path = self.path(blob.pool, blob.name)
        self.files.replace(self.part(blob.pool), path)
        try:
            if sync:
                self.files.sync_folder(path.parent)
            self._name([blob], sync)
        except OSError:
            self._unlink([(blob.pool, blob.name)])
            raise

    def _name(self, blobs: Sequence[Blob], sync: bool) -> None:
        pool, last = blobs[-1].pool, blobs[-1]
        num_bytes = self.num_bytes(pool) + sum(blob.num_bytes for blob in blobs)
        with self._change(sync) as index:
            for blob in blobs:
                num_bytes -= rows.insert(index, blob, self._now())
        self._sums[pool] = num_bytes
        if not last.lasting:
            self._newest = (pool, last.name)
        elif any((pool, name) == self._newest for name in last.needs):
            self._newest = NOWHERE

    def shrink(self, pool: str, cap: int) -> None:
        """Evict down to `cap`, if necessary even the chain that is being written."""
        excess = self.num_bytes(pool) - cap
        if excess > 0 and not self._evict(pool, excess, [self._newest]):
            self._evict(pool, excess, [])

    # -- notes

    def note(self, kind: str, key: str) -> str | None:
        found = self._ask(FIND_NOTE, kind, key)
        return str(found[0][0]) if found else None

    def write_note(self, kind: str, key: str, value: str) -> None:
        """Beyond `MOST_NOTES` of a kind the oldest are deleted."""
        with self._change() as index:
            index.ask(_NOTE, kind, key, value)
            index.ask(_TRIM, kind, kind, MOST_NOTES)

    def delete_notes(self, kind: str) -> None:
        with self._change() as index:
            index.ask("DELETE FROM notes WHERE kind = ?", kind)

    # -- deleting

    def lose(self, pool: str, name: str) -> None:
        """Delete a damaged blob, all that need it, and what nothing needs then."""
        # A file that can't be deleted now is found damaged again, and deleted later.
        with suppress(OSError):
            self.files.delete(self.path(pool, name))
        with suppress(OSError):
            with self._change() as index:
                gone = rows.lose(index, (pool, name), rows.above(index, [self._newest]))
            self._unlink(gone)

    def forget(self, owner: str | None, pool: str | None = None) -> None:
        """Delete what only `owner` has (None: all but the weights), in one pool or all. Raises
        OSError; another call continues."""
        if self._index is None:
            if not self.folder.is_dir():
                return
            self.open()
        gone: list[Place] = []
        littered = self._littered
        try:
            self._strike(owner, pool, gone)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # A full disk has no room for a transaction until files are gone.
            self._unlink(gone)
            self._strike(owner, pool, gone)
        if littered:
            self._sweep()
        else:
            self._clear(gone)
            self._littered = False

    def _strike(self, owner: str | None, pool: str | None, gone: list[Place]) -> None:
        with self._change() as index:
            gone += rows.strike(index, owner, pool, self._newest)
        self._littered = True
        index.leave_no_trace()

    def _evict(self, pool: str, num_bytes: int, keep: Iterable[Place]) -> bool:
        """Free so many bytes, sparing `keep` and what those need; else False, and nothing goes."""
        with suppress(_NoRoomError):
            with self._change() as index:
                freed, gone = rows.evict(index, pool, num_bytes, rows.above(index, keep))
                if freed < num_bytes:
                    raise _NoRoomError
            self._unlink(gone)
            return True
        return False

    def _unlink(self, gone: Iterable[Place]) -> None:
        """Raises OSError after trying all; the rest is swept later."""
        failed: OSError | None = None
        for place, name in gone:
            try:
                self.files.delete(self.path(place, name))
            except OSError as error:
                failed, self._littered = error, True
        if failed is not None:
            raise failed

    def _clear(self, gone: Collection[Place]) -> None:
        try:
            self._unlink(gone)
        finally:
            for folder in sorted({self.folder / place for place, _ in gone}):
                with suppress(FileNotFoundError):
                    try:
                        folder.rmdir()
                    except OSError:  # something is in it
                        self.files.sync_folder(folder)
        self.files.sync_folder(self.folder)

    def _sweep(self) -> int:
        held = set(self._opened().ask("SELECT pool, name FROM blobs"))
        gone = [place for place in self._listing() if place not in held]
        if gone:
            self._clear(gone)
        self._littered = False
        return len(gone)

    # -- opening

    def _mend(self) -> None:
        there = set(self._listing())
        with self._change() as index:
            ((self._last_used,),) = index.ask("SELECT coalesce(max(used), 0) FROM blobs")
            rows.keep_only(index, there)
        index.leave_no_trace()
        if deleted := self._sweep():
            log.info("%d files that nothing uses were deleted from %s.", deleted, self.folder)

    def _listing(self) -> Iterator[Place]:
        for pool in filter(_POOL.fullmatch, self.files.folders(self.folder)):
            names = self.files.names(self.folder / pool)
            yield from ((pool, name) for name in names if _OURS.fullmatch(name))

    # -- the index

    def _ask(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        """Empty if the index can't be read, which closes the store."""
        if self._index is None:
            return []
        try:
            return self._index.ask(question, *values)
        except OSError as error:
            self.close(error)
            return []

    @contextmanager
    def _change(self, sync: bool = False) -> Iterator[Index]:
        self._sums.clear()
        try:
            with self._opened().change(sync):
                yield self._opened()
        except DamagedIndexError as error:
            self.close(error)
            raise

    def _opened(self) -> Index:
        if self._index is None:
            raise self.failure or OSError(errno.EBADF, "it is closed")
        return self._index

    def _now(self) -> int:
        self._last_used = max(time.time_ns(), self._last_used + 1)
        return self._last_used

    def _too_full(self) -> str:
        space = self.files.free(self.folder)
        floor = max(self._floor, space.total // FLOOR_SHARE)
        return (
            f"the disk has {space.free / 2**30:.1f} GiB left, "
            f"and Waymark leaves {floor / 2**30:.1f} GiB free"
        )


class _NoRoomError(Exception):
    """Rolls back an eviction that can't free enough."""
