"""Quantised matrices of earlier loads on disk, so that the next load quantises nothing again.

A file is used only for the very weights files that were digested, and for the same model, weight
format, numerics and file format, which make its key. Nothing here fails a load: when anything is
off, the weights are quantised again, and the log says why.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass

from core.api.errors import NotDeletedError
from core.api.json_text import parse_json
from core.api.params import ModelSettings
from core.loading.fingerprint import quantising_conditions
from core.loading.precision import Precision
from core.loading.quantised_file import (
    FORMAT,
    QuantisedDamagedError,
    QuantisedFile,
    QuantisedLayout,
    QuantisedWriter,
)
from core.storage.rows import WEIGHTS, Blob
from core.storage.store import DiskStore
from core.weights.safetensors_file import WeightsFile
from kernels.linear.reference import QuantisedTensors

log = logging.getLogger(__name__)

# By default quantised matrices may take this share of the free disk space, up to a limit.
WEIGHTS_SHARE = 0.1
WEIGHTS_LIMIT = 16 * 2**30
# File systems count time in steps of up to two seconds; a second write within one step is unseen.
SETTLED_NS = 2 * 10**9
_KIND = "weights files"
Facts = list[list[str | int]]


def open_keeping(
    settings: ModelSettings, precision: Precision, blobs: DiskStore | None
) -> Keeping | None:
    """Where a load in this precision finds and keeps matrices; None if it does neither.

    Deletes what exceeds the cap.
    """
    if blobs is None:
        return None
    store = QuantisedStore(blobs, weights_budget(settings, blobs))
    store.trim()
    # Floats would be a plain copy of the weights.
    if precision.integers is None or settings.weights_bytes == 0:
        return None
    return Keeping(store, quantising_conditions())


def weights_budget(settings: ModelSettings, blobs: DiskStore | None) -> int:
    if blobs is None:
        return 0
    if settings.weights_bytes is not None:
        return settings.weights_bytes
    folder = blobs.folder.absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    # Kept matrices count as free, or the cap would shrink as it fills.
    free = shutil.disk_usage(there).free + kept_bytes(blobs)
    return min(WEIGHTS_LIMIT, int(free * WEIGHTS_SHARE))


def kept_bytes(blobs: DiskStore | None) -> int:
    return blobs.num_bytes(WEIGHTS) if blobs is not None else 0


def delete_quantised(blobs: DiskStore) -> None:
    """Delete all quantised matrices; loaded models don't need them. Raises NotDeletedError."""
    try:
        try:
            blobs.delete_notes(_KIND)
        finally:
            blobs.forget(WEIGHTS)
    except OSError as error:
        words = f"Quantised weights in {blobs.folder} can't be deleted"
        raise NotDeletedError(f"{words}: {error.strerror or error}.") from error


@dataclass(frozen=True, slots=True)
class Keeping:
    """Finds and keeps what loads quantise.

    `conditions` are properties of machine and code that the numbers depend on; `clock` gives
    nanoseconds since the epoch.
    """

    store: QuantisedStore
    conditions: str
    clock: Callable[[], int] = time.time_ns

    def find(
        self, files: tuple[WeightsFile, ...], meaning: str, layout: QuantisedLayout
    ) -> QuantisedLoad | None:
        """The matrices kept of these files, if any; `meaning` is how the model reads them."""
        try:
            facts = facts_of(files)
        except OSError:
            return None
        digest = known_digest(self.store.blobs, facts)
        if digest is None:
            return None
        key = self.key(digest, meaning)
        found = self.store.find(key, layout)
        return QuantisedLoad(self, files, facts, digest, key, found) if found is not None else None

    def begin(
        self, files: tuple[WeightsFile, ...], meaning: str, layout: QuantisedLayout
    ) -> NewLoad:
        """Start keeping; nothing is kept of files that could not be recognised later."""
        now = self.clock()
        try:
            facts = facts_of(files)
        except OSError:  # reading them will say so
            facts = []
        writer = self.store.begin(layout) if are_settled(facts, now) else None
        return NewLoad(self, files, facts, meaning, writer)

    def key(self, digest: str, meaning: str) -> str:
        facts = json.dumps([FORMAT, digest, meaning, self.conditions])
        return hashlib.blake2b(facts.encode(), digest_size=32).hexdigest()


@dataclass(frozen=True, slots=True)
class NewLoad:
    _keeping: Keeping
    _files: tuple[WeightsFile, ...]
    _facts: Facts
    _meaning: str
    _writer: QuantisedWriter | None

    def keep(self, name: str, kept: QuantisedTensors) -> None:
        if self._writer is not None:
            self._writer.keep(name, kept)

    def finish(self, digest: str) -> None:
        """End a complete load of files with this digest."""
        if self._writer is None:
            return
        if not _unchanged(self._facts, self._files):
            self._writer.drop()
            return
        store = self._keeping.store
        store.finish(self._writer, self._keeping.key(digest, self._meaning))
        remember_digest(store.blobs, self._facts, digest)

    def drop(self) -> None:
        if self._writer is not None:
            self._writer.drop()


@dataclass(frozen=True, slots=True)
class QuantisedLoad:
    _keeping: Keeping
    _files: tuple[WeightsFile, ...]
    _facts: Facts
    digest: str
    _key: str
    file: QuantisedFile

    def unchanged(self) -> bool:
        return _unchanged(self._facts, self._files)

    def discard(self, reason: str) -> None:
        self.file.close()
        self._keeping.store.discard(self._key, reason)


class QuantisedStore:
    """One file for each model and format in the store on disk, of at most `cap` bytes together."""

    def __init__(self, blobs: DiskStore, cap: int) -> None:
        self.blobs, self._cap = blobs, cap

    def find(self, key: str, layout: QuantisedLayout) -> QuantisedFile | None:
        """The file of this key, now the most recently used; a damaged one is deleted."""
        name = _name(key)
        if self.blobs.size(WEIGHTS, name) is None:
            return None
        try:
            found = QuantisedFile(self.blobs.path(WEIGHTS, name), layout, key)
        except (OSError, QuantisedDamagedError) as error:
            self.discard(key, f"{error}")
            return None
        self.blobs.touch(WEIGHTS, name)
        return found

    def begin(self, layout: QuantisedLayout) -> QuantisedWriter | None:
        """Make room for a file and start it; None if there is no room."""
        try:
            if not self.blobs.make_room(_blob("", layout.num_bytes), self._cap):
                sizes = layout.num_bytes / 1e9, self._cap / 1e9
                log.warning("Quantised matrices are not kept: they take %.2f GB of %.2f.", *sizes)
                return None
            unfinished = self.blobs.unfinished(WEIGHTS)
        except OSError as error:
            log.warning("Quantised matrices are not kept: %s.", error.strerror)
            return None
        return QuantisedWriter(unfinished, layout, self.blobs.excess, self.blobs.files)

    def finish(self, writer: QuantisedWriter, key: str) -> None:
        """Move a complete file to its place."""
        try:
            if writer.finish(key):
                self.blobs.adopt(_blob(key, writer.layout.num_bytes), writer.path)
                return
            trouble: str | None = writer.trouble
        except OSError as error:
            writer.drop()
            trouble = error.strerror
        log.warning("Quantised matrices are not kept: %s.", trouble)

    def trim(self) -> None:
        try:
            self.blobs.shrink(WEIGHTS, self._cap)
        except OSError as error:
            log.warning("Quantised matrices can't be deleted: %s.", error.strerror)

    def discard(self, key: str, reason: str) -> None:
        log.warning("%s is read from the weights again: %s.", key[:12], reason)
        self.blobs.lose(WEIGHTS, _name(key))


def facts_of(files: tuple[WeightsFile, ...]) -> Facts:
    """Path, size, times and header of each file, which identify it unread. Raises OSError.

    The time of writing can be set by anyone; that of the last change can't, except on Windows.
    """
    facts: Facts = []
    for file in files:
        path = file.path.resolve()
        now = path.stat()
        times = now.st_mtime_ns, now.st_ctime_ns
        facts.append([str(path), now.st_size, *times, file.header_digest.hex()])
    return facts


def are_settled(facts: Facts, now: int) -> bool:
    """Whether a write after `now`, in nanoseconds since the epoch, would change these facts."""
    return bool(facts) and now - max(int(each[2]) for each in facts) >= SETTLED_NS


def known_digest(blobs: DiskStore, facts: Facts) -> str | None:
    """The digest that `stream_weights` gave for files with these facts, if it is noted."""
    noted = blobs.note(_KIND, _paths(facts))
    try:
        known, digest = parse_json(noted) if noted is not None else (None, "")
        # The store does not notice a flipped bit in a note.
        return digest if known == facts and len(bytes.fromhex(digest)) == 32 else None
    except (ValueError, TypeError):
        return None


def remember_digest(blobs: DiskStore, facts: Facts, digest: str) -> None:
    """Note the digest of settled files; a disk that refuses is no error."""
    with contextlib.suppress(OSError):
        blobs.write_note(_KIND, _paths(facts), json.dumps([facts, digest]))


def _paths(facts: Facts) -> str:
    return json.dumps([each[0] for each in facts])


def _unchanged(facts: Facts, files: tuple[WeightsFile, ...]) -> bool:
    try:
        return facts_of(files) == facts
    except OSError:
        return False


def _name(key: str) -> str:
    return f"{key}.safetensors"


def _blob(key: str, num_bytes: int) -> Blob:
    return Blob(WEIGHTS, _name(key), num_bytes, owners=(WEIGHTS,))
