"""One model's segments on disk. Checkpoints and pictures last; keys and values stay while a
checkpoint needs them. Without recurrent state a checkpoint is the last hidden row alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from core.api.errors import NotDeletedError
from core.cache.disk.segment import Label, SegmentDamagedError, SegmentId, SegmentKind, pack, unpack
from core.storage.rows import NOBODY, Blob
from core.storage.store import DiskStore, Writing

_LASTING = SegmentKind.STATE, SegmentKind.EMBEDDING
Window = tuple[bytes, int, Mapping[str, Tensor]]
"""A run's key, and how many of its last rows a segment has; these, unless it is held."""
Rows = tuple[bytes, Mapping[str, Tensor], Collection[str]]
"""A run's key, its KV and its owners."""


class SegmentStore:
    """At most `cap` bytes. `trouble` says why the store is closed or why the last write failed."""

    def __init__(self, blobs: DiskStore, fingerprint: bytes, cap: int) -> None:
        self.blobs = blobs
        self._fingerprint, self._pool = fingerprint, fingerprint.hex()
        self._trouble: OSError | None = None
        self.cap = cap

    @property
    def trouble(self) -> str | None:
        error = self.blobs.failure or self._trouble
        return in_words(self.blobs.folder, error) if error is not None else None

    @property
    def num_bytes(self) -> int:
        return self.blobs.num_bytes(self._pool)

    @property
    def cap(self) -> int:
        """Lowering it evicts at once."""
        return self._cap

    @cap.setter
    def cap(self, cap: int) -> None:
        self._cap = cap
        try:
            self.blobs.shrink(self._pool, cap)
        except OSError as error:
            self._trouble = error

    def has(self, kind: SegmentKind, key: bytes, num_rows: int = 0) -> bool:
        return self.size(kind, key, num_rows) > 0

    def size(self, kind: SegmentKind, key: bytes, num_rows: int = 0) -> int:
        return self.blobs.size(self._pool, SegmentId(kind, key, num_rows).file_name) or 0

    def enough_rows(self, key: bytes, count: int) -> int:
        """The rows of a segment with at least `count` of a run's last rows in windows, else 0."""
        begin = f"{SegmentKind.WINDOW.value}-{key.hex()}-"
        found = map(SegmentId.of_file, self.blobs.beginning(self._pool, begin))
        rows = (name.num_rows for name in found if name is not None and name.num_rows >= count)
        return min(rows, default=0)

    def window(self, key: bytes) -> dict[bytes, int]:
        """The runs whose rows in windows a checkpoint needs, and how many each segment has."""
        state = SegmentId(SegmentKind.STATE, key)
        found = map(SegmentId.of_file, self.blobs.needed_by(self._pool, state.file_name))
        return {name.key: name.num_rows for name in found if name is not None and name.num_rows}

    def put(
        self,
        kind: SegmentKind,
        key: bytes,
        parent: bytes | None,
        tensors: Mapping[str, Tensor],
        owners: Iterable[str],
        windows: Iterable[Window] = (),
    ) -> bool:
        """Write a segment, or add owners to one that is held; False without room, or if the disk
        refuses.

        `parent` is the run before run `key`, None at the start of a text and for embeddings; its KV
        must be held, for a state also that of `key`. A state is written with the `windows` it
        needs.
        """
        name = SegmentId(kind, key)
        owners = set(owners) or {NOBODY}
        if self.blobs.closed:
            return False
        if self.has(kind, key):
            for owner in owners:
                self.own(owner, kind, key)
            return True
        needs, before = _needs(name, parent), list[Writing]()
        assert all(self.has(each.kind, each.key) for each in needs)
        if kind is SegmentKind.STATE:
            parent = self._parent(name)
        for run, num_rows, rows in windows:
            part = SegmentId(SegmentKind.WINDOW, run, num_rows)
            needs.append(part)
            if rows:
                needed = [SegmentId(SegmentKind.KV, run)]
                before.append(self._writing(part, self._parent(part), rows, needed, ()))
        return self._write([*before, self._writing(name, parent, tensors, needs, owners)])

    def put_runs(self, parent: bytes | None, runs: Iterable[Rows]) -> bool:
        """Write the KV of consecutive runs, none of them held, the first after `parent`: all, or
        none without room or if the disk refuses."""
        if self.blobs.closed:
            return False
        assert parent is None or self.has(SegmentKind.KV, parent)
        writings = list[Writing]()
        for key, tensors, owners in runs:
            name = SegmentId(SegmentKind.KV, key)
            needs = _needs(name, parent)
            writings.append(self._writing(name, parent, tensors, needs, owners or {NOBODY}))
            parent = key
        return self._write(writings)

    def _write(self, writings: Sequence[Writing]) -> bool:
        """Write all or none, each after those it needs."""
        *before, (blob, parts) = writings
        try:
            written = self.blobs.put(blob, parts, self._cap, before)
            self._trouble = None
        except OSError as error:
            written, self._trouble = False, error
        return written

    def get(self, kind: SegmentKind, key: bytes, num_rows: int = 0) -> dict[str, Tensor] | None:
        """Tensors on the CPU, each in its own memory; None if not held. Raises SegmentDamagedError
        after deleting a damaged file, with all that needs it."""
        name = SegmentId(kind, key, num_rows)
        if not self.has(kind, key, num_rows):
            return None
        try:
            label = Label(self._fingerprint, name, self._parent(name))
            tensors = unpack(label, self.blobs.read(self._pool, name.file_name))
        except OSError as error:
            self.blobs.lose(self._pool, name.file_name)
            reason = f"It can't be read: {error.strerror or error}."
            raise SegmentDamagedError(reason) from error
        except SegmentDamagedError:
            self.blobs.lose(self._pool, name.file_name)
            raise
        if kind in _LASTING:
            self.touch(kind, key)
        return tensors

    def own(self, owner: str, kind: SegmentKind, *keys: bytes) -> None:
        """Whoever owns a segment owns all that it needs."""
        try:
            self.blobs.own(owner, self._pool, [SegmentId(kind, key).file_name for key in keys])
        except OSError as error:
            self._trouble = error

    def touch(self, kind: SegmentKind, key: bytes) -> None:
        self.blobs.touch(self._pool, SegmentId(kind, key).file_name)

    def forget(self, owner: str | None) -> None:
        """Delete what only `owner` used, of all models; None deletes all of this model."""
        forget(self.blobs, owner, self._pool if owner is None else None)

    def _writing(
        self,
        name: SegmentId,
        parent: bytes | None,
        tensors: Mapping[str, Tensor],
        needs: Iterable[SegmentId],
        owners: Collection[str],
    ) -> Writing:
        packed = pack(Label(self._fingerprint, name, parent), tensors)
        needed = tuple(each.file_name for each in needs)
        lasting = name.kind in _LASTING
        blob = Blob(self._pool, name.file_name, packed.num_bytes, needed, lasting, owners)
        return blob, packed.parts()

    def _parent(self, name: SegmentId) -> bytes | None:
        run = SegmentId(SegmentKind.KV, name.key)
        if name.kind is SegmentKind.EMBEDDING:
            return None
        needed = map(SegmentId.of_file, self.blobs.needed_by(self._pool, run.file_name))
        return next((found.key for found in needed if found is not None), None)


def forget(blobs: DiskStore, owner: str | None, pool: str | None = None) -> None:
    """Delete what only `owner` used (None: all contexts) of one model or all. Raises
    NotDeletedError; another call continues."""
    if owner == NOBODY:
        return
    try:
        blobs.forget(owner, pool)
    except OSError as error:
        words = f"{in_words(blobs.folder, error)} Some of what is stored there is still there."
        raise NotDeletedError(words) from error


def in_words(folder: Path, error: OSError) -> str:
    return f"Contexts can't be kept in {folder}: {error.strerror or error}."


def _needs(name: SegmentId, parent: bytes | None) -> list[SegmentId]:
    if name.kind is SegmentKind.STATE:
        return [SegmentId(SegmentKind.KV, name.key)]
    if name.kind is SegmentKind.EMBEDDING or parent is None:
        return []
    return [SegmentId(SegmentKind.KV, parent)]
