"""One model's segments on disk: files named by what they hold, owned by chats, bounded in bytes.

A folder holds `<kind>-<key>.safetensors` files and `owners/`, a log for each chat. A segment's
owners are recorded before it appears, and a chat's log goes before its segments do, so a process
killed anywhere leaves at worst files that nobody owns: the next start deletes them. Nothing is
indexed anywhere else; the logs and the folder's listing decide. A model without recurrent
state is no special case: its states are segments that hold the last hidden row alone, and KV that
no state needs is not kept.

Knows nothing of prompts, trees and models; `core.cache.tier` decides what is worth writing.
One thread uses a store, and a lock elsewhere keeps two processes from sharing a folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from torch import Tensor

from core.api.errors import NotDeletedError
from core.cache.disk.files import UNFINISHED, Files
from core.cache.disk.index import SegmentIndex
from core.cache.disk.opening import OWNERS, in_words, open_folder, sweep
from core.cache.disk.owners import NOBODY, OwnerLogs
from core.cache.disk.room import DEFAULT_FLOOR, FreeSpaceFloor
from core.cache.disk.segment import Label, SegmentDamagedError, SegmentId, SegmentKind, pack, unpack


class SegmentStore:
    """The segments of the model with `fingerprint`, in `folder`, of at most `cap` bytes.

    Nothing is written that would leave less than `floor` bytes, or a twentieth of the file system,
    free. What a killed process left unfinished is removed when the store opens, and so is whatever
    nobody owns or can't be restored. A folder that can't be used makes a `closed` store, which
    holds nothing; `trouble` says in words why the store is closed or why the last write failed.
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: bytes,
        cap: int,
        floor: int = DEFAULT_FLOOR,
        files: Files | None = None,
    ) -> None:
        self.folder = folder
        self.closed = False
        self.trouble: str | None = None
        self._fingerprint = fingerprint
        self._cap = cap
        self._files = files if files is not None else Files()
        self._floor = FreeSpaceFloor(folder, floor, self._files)
        self._logs = OwnerLogs(folder / OWNERS, fingerprint, self._files)
        self._index = SegmentIndex()
        self._open()

    @property
    def num_bytes(self) -> int:
        """Bytes of all segment files."""
        return self._index.num_bytes

    @property
    def cap(self) -> int:
        """The most bytes that segment files may take; lowering it evicts at once."""
        return self._cap

    @cap.setter
    def cap(self, cap: int) -> None:
        self._cap = cap
        self._shrink()

    def has(self, kind: SegmentKind, key: bytes) -> bool:
        return SegmentId(kind, key) in self._index

    def size(self, kind: SegmentKind, key: bytes) -> int:
        """Bytes of a segment's file; 0 when it isn't held."""
        return self._index.size(SegmentId(kind, key)) if self.has(kind, key) else 0

    def put(
        self,
        kind: SegmentKind,
        key: bytes,
        parent: bytes | None,
        tensors: Mapping[str, Tensor],
        owners: Iterable[str],
    ) -> bool:
        """Write a segment, or only add its owners where it is held; False where that failed.

        `parent` is the key of the run before the run `key`, None at a text's start and for
        embeddings; that run's KV must be held, and for a state the KV of run `key` itself too.
        Owners own what the segment needs as well; no owner means nobody in particular. It fails
        where cap or free space leave no room, and where the disk refuses; the store stays whole.
        """
        name = SegmentId(kind, key)
        if self.closed:
            return False
        owners = set(owners) or {NOBODY}
        if name in self._index:
            for owner in owners:
                self._own(owner, name)
            return True
        self._index.introduce(name, parent)
        packed = pack(Label(self._fingerprint, name, self._index.parent(name)), tensors)
        try:
            if not self._make_room(packed.num_bytes, self._index.in_use(name)):
                return False
            for owner in owners:
                self._record(owner, name, sync=True)
            self._files.write(self._path(name), packed.parts())
        except OSError as error:
            self._give_up(name, error)
            return False
        self._index.hold(name, packed.num_bytes)
        self.trouble = None
        return True

    def get(self, kind: SegmentKind, key: bytes) -> dict[str, Tensor] | None:
        """The tensors of a segment, on the CPU, each in memory of its own; None when not held.

        Takes twice the segment's bytes while it reads. A file that doesn't verify is deleted with
        all that can't be restored without it, and SegmentDamagedError is raised.
        """
        name = SegmentId(kind, key)
        if name not in self._index:
            return None
        try:
            tensors = unpack(
                Label(self._fingerprint, name, self._index.parent(name)), self._read(name)
            )
        except SegmentDamagedError:
            self._lose(name)
            raise
        if kind is not SegmentKind.KV:
            self._mark_used(name)
        return tensors

    def own(self, owner: str, kind: SegmentKind, key: bytes) -> None:
        """Add an owner to a segment and to all that it needs; nothing where it isn't held."""
        name = SegmentId(kind, key)
        if name in self._index:
            self._own(owner, name)

    def touch(self, kind: SegmentKind, key: bytes) -> None:
        """Count a segment as used now, though memory served it; nothing where it isn't held."""
        name = SegmentId(kind, key)
        if name in self._index:
            self._mark_used(name)

    def forget(self, owner: str | None) -> None:
        """Delete what only `owner` used; None deletes all. Gone from the disk on return.

        Raises NotDeletedError; asking again goes on where it stopped. What belongs to nobody in
        particular goes only with everything.
        """
        if owner == NOBODY:
            return
        try:
            if self.closed and not self._files.is_folder(self.folder):
                return
            if self.closed or not self._files.is_folder(self.folder / OWNERS):
                self._open()
            if self.closed:
                raise NotDeletedError(f"{self.trouble} What is stored there is still there.")
            self._forget(self._owners() if owner is None else {owner})
        except OSError as error:
            raise NotDeletedError(in_words(self.folder, error)) from error

    def check_integrity(self) -> None:
        """Assert that index, files and logs agree; for tests."""
        self._index.check_integrity()
        if self.closed:
            assert self.num_bytes == 0
            return
        entries = self._files.list(self.folder)
        found = {
            name: entry.num_bytes
            for entry in entries
            if (name := SegmentId.of_file(entry.name)) is not None
        }
        assert found == {name: self._index.size(name) for name in self._index}
        assert not any(entry.name.startswith(UNFINISHED) for entry in entries)
        assert self.num_bytes <= self._cap
        logs = self._logs.read_all()
        for owner in self._index.owners():
            assert set(self._index.records(owner)) <= set(logs[owner].records)

    # -- opening and forgetting

    def _open(self) -> None:
        self.closed, self.trouble = False, None
        self._index = SegmentIndex()
        try:
            self._index = open_folder(self.folder, self._cap, self._logs, self._files)
        except OSError as error:
            self.closed, self.trouble = True, in_words(self.folder, error)
            return
        self._shrink()

    def _owners(self) -> set[str]:
        return {*self._logs.owners(), *self._index.owners()}

    def _forget(self, owners: Collection[str]) -> None:
        for owner in owners:
            self._logs.delete(owner)
            self._index.disown(owner)
        # Where this fails, the files are no longer held: asked again, it sweeps them away.
        sweep(self.folder, self._index, self._logs, self._files)
        self._logs.sync()
        self._files.sync_folder(self.folder)

    # -- room

    def _make_room(self, num_bytes: int, keep: Collection[bytes]) -> bool:
        """Evict until so many bytes fit under cap and floor; nothing where they can't."""
        over_cap = self.num_bytes + num_bytes - self._cap
        excess = max(over_cap, self._floor.excess(num_bytes))
        if excess <= 0:
            return True
        victims = self._index.victims(excess, keep)
        for name in victims or ():
            self._remove(name)
        # Deleting may free less than a file's size: snapshots and hard links share blocks.
        self.trouble = self._floor.trouble(num_bytes)
        return victims is not None and self.trouble is None

    def _shrink(self) -> None:
        """Evict down to the cap, if need be the chain that is being written too."""
        excess = self.num_bytes - self._cap
        if excess > 0:
            victims = self._index.victims(excess, self._index.being_written())
            if victims is None:
                victims = self._index.victims(excess, ())
            assert victims is not None
            try:
                for name in victims:
                    self._remove(name)
            except OSError as error:
                self.trouble = in_words(self.folder, error)

    # -- single segments

    def _own(self, owner: str, name: SegmentId) -> None:
        try:
            # A record lost in a power cut costs at most the segment; it isn't worth waiting for.
            self._record(owner, name, sync=False)
        except OSError as error:
            self.trouble = in_words(self.folder, error)

    def _record(self, owner: str, name: SegmentId, sync: bool) -> None:
        records = self._index.unrecorded(owner, name)
        if records:
            self._logs.append(owner, records, sync)
            self._index.record(owner, records)

    def _read(self, name: SegmentId) -> bytearray:
        expected = self._index.size(name)
        try:
            raw = self._files.read(self._path(name), expected)
        except OSError as error:
            raise SegmentDamagedError(f"It can't be read: {error.strerror or error}.") from error
        if len(raw) != expected:
            raise SegmentDamagedError(f"It has {len(raw):,} bytes instead of {expected:,}.")
        return raw

    def _mark_used(self, name: SegmentId) -> None:
        self._index.use(name)
        with suppress(OSError):
            self._files.mark_used(self._path(name))

    def _remove(self, name: SegmentId) -> None:
        self._files.delete(self._path(name))
        self._index.drop(name)

    def _lose(self, name: SegmentId) -> None:
        """Drop a damaged segment, what can't be restored without it, and what nothing needs now."""
        for each in self._index.with_dependents(name):
            self._drop(each)
        for each in self._index.stateless(self._index.being_written()):
            self._drop(each)

    def _drop(self, name: SegmentId) -> None:
        with suppress(OSError):  # what can't be deleted now is never read again and goes later
            self._files.delete(self._path(name))
        self._index.drop(name)

    def _give_up(self, name: SegmentId, error: OSError) -> None:
        """Leave nothing of a write that failed."""
        self.trouble = in_words(self.folder, error)
        with suppress(OSError):
            self._files.delete(self._path(name))

    def _path(self, name: SegmentId) -> Path:
        return self.folder / name.file_name
