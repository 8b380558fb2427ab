"""Quantised matrices of earlier loads on disk, used only for the very weights files that were
digested, and for the same model, weight format, numerics and file format. Nothing here fails a
load."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Callable

from core.api.errors import NotDeletedError
from core.api.json_text import parse_json
from core.api.params import ModelSettings
from core.loading.fingerprint import quantising_conditions
from core.loading.quantised_file import (
    FORMAT,
    QuantisedDamagedError,
    QuantisedFile,
    QuantisedLayout,
    QuantisedWriter,
)
from core.loading.tile_file import TILE_NOTES
from core.storage.rows import TILES, WEIGHTS, Blob
from core.storage.store import DiskStore
from core.weights.container import Container, Facts

log = logging.getLogger(__name__)

# By default quantised matrices may take this share of the free disk space, up to a limit.
WEIGHTS_SHARE = 0.1
WEIGHTS_LIMIT = 16 * 2**30
# File systems count time in steps of up to two seconds; a second write within one step is unseen.
SETTLED_NS = 2 * 10**9
_KIND = "weights files"


def delete_quantised(blobs: DiskStore) -> None:
    """Loaded models don't need them. Raises NotDeletedError."""
    try:
        try:
            for kind in (_KIND, TILE_NOTES):
                blobs.delete_notes(kind)
        finally:
            blobs.forget(WEIGHTS)
    except OSError as error:
        words = f"Quantised weights in {blobs.folder} can't be deleted"
        raise NotDeletedError(f"{words}: {error.strerror or error}.") from error


class QuantisedStore:
    """One file for each model and format, at most `cap` bytes together. `conditions` are properties
    of machine and code that the numbers depend on; `clock` gives nanoseconds since the epoch."""

    def __init__(
        self,
        blobs: DiskStore,
        cap: int,
        conditions: str = "",
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.blobs, self.cap, self._conditions, self._clock = blobs, cap, conditions, clock

    @classmethod
    def open(cls, settings: ModelSettings, blobs: DiskStore | None) -> QuantisedStore | None:
        if blobs is None:
            return None
        store = cls(blobs, _budget(settings, blobs), quantising_conditions())
        store.trim()
        if settings.weights_bytes is not None:
            store.trim(TILES)
        return store

    @property
    def num_bytes(self) -> int:
        return self.blobs.num_bytes(WEIGHTS) + self.blobs.num_bytes(TILES)

    def find(
        self, files: Container, meaning: str, layout: QuantisedLayout
    ) -> tuple[QuantisedFile, str] | None:
        """The matrices and the files' digest, if an earlier load kept them. `meaning`: how the
        model reads the files. A damaged file is deleted."""
        digest = self.known_digest(files)
        if digest is None:
            return None
        key = self._key(digest, meaning)
        name = _name(key)
        if self.blobs.size(WEIGHTS, name) is None:
            return None
        try:
            found = QuantisedFile(self.blobs.path(WEIGHTS, name), layout, key)
        except (OSError, QuantisedDamagedError) as error:
            self._lose(name, f"{error}")
            return None
        self.blobs.touch(WEIGHTS, name)
        return found, digest

    def discard(self, file: QuantisedFile, reason: str) -> None:
        file.close()
        self._lose(file.path.name, reason)

    def begin(self, files: Container, layout: QuantisedLayout) -> QuantisedWriter | None:
        """None if there is no room, or if the files could not be recognised later."""
        facts = self.settled_facts(files)
        if self.cap == 0 or not facts:
            return None
        try:
            if not self.blobs.make_room(_blob("", layout.num_bytes), self.cap):
                sizes = layout.num_bytes / 1e9, self.cap / 1e9
                log.warning("Quantised matrices are not kept: they take %.2f GB of %.2f.", *sizes)
                return None
            return QuantisedWriter(self.blobs, layout, facts)
        except OSError as error:
            log.warning("Quantised matrices are not kept: %s.", error.strerror)
            return None

    def finish(self, writer: QuantisedWriter, files: Container, digest: str, meaning: str) -> None:
        """Unless the weights files changed meanwhile."""
        if files.facts() != writer.facts:
            writer.drop()
            return
        key = self._key(digest, meaning)
        try:
            if writer.finish(key):
                self.blobs.adopt(_blob(key, writer.layout.num_bytes))
        except OSError as error:
            writer.stop(f"{error.strerror}")
        if writer.trouble:
            log.warning("Quantised matrices are not kept: %s.", writer.trouble)
        self.remember_digest(writer.facts, digest)

    def trim(self, pool: str = WEIGHTS) -> None:
        try:
            self.blobs.shrink(pool, self.cap)
        except OSError as error:
            log.warning("Quantised matrices can't be deleted: %s.", error.strerror)

    def known_digest(self, files: Container) -> str | None:
        facts = files.facts()
        noted = self.blobs.note(_KIND, _paths(facts)) if facts else None
        try:
            known, digest = parse_json(noted) if noted is not None else (None, "")
            # The store does not notice a flipped bit in a note.
            return digest if known == facts and len(bytes.fromhex(digest)) == 32 else None
        except (ValueError, TypeError):
            return None

    def settled_facts(self, files: Container) -> Facts:
        """Empty if a write from now on might leave the facts as they are."""
        now, facts = self._clock(), files.facts()
        newest = max((int(each[2]) for each in facts), default=now)
        return facts if now - newest >= SETTLED_NS else []

    def remember_digest(self, facts: Facts, digest: str) -> None:
        with contextlib.suppress(OSError):
            self.blobs.write_note(_KIND, _paths(facts), json.dumps([facts, digest]))

    def _lose(self, name: str, reason: str) -> None:
        log.warning("%s is read from the weights again: %s.", name[:12], reason)
        self.blobs.lose(WEIGHTS, name)

    def _key(self, digest: str, meaning: str) -> str:
        facts = json.dumps([FORMAT, digest, meaning, self._conditions])
        return hashlib.blake2b(facts.encode(), digest_size=32).hexdigest()


def _budget(settings: ModelSettings, blobs: DiskStore) -> int:
    if settings.weights_bytes is not None:
        return settings.weights_bytes
    # Quantised matrices count as free, or the cap would shrink as it fills.
    return min(WEIGHTS_LIMIT, blobs.share_of_disk(WEIGHTS_SHARE, WEIGHTS))


def _paths(facts: Facts) -> str:
    return json.dumps([each[0] for each in facts])


def _name(key: str) -> str:
    return f"{key}.safetensors"


def _blob(key: str, num_bytes: int) -> Blob:
    return Blob(WEIGHTS, _name(key), num_bytes, owners=(WEIGHTS,))
