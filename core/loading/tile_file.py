"""Blocks of a model that doesn't fit in memory, as tiles in a mapped file of ours: kernels need
tiles, and a mapped GGUF file that another program shortens ends the process. The copy is recognised
by its size, owner and time of last change, and each load compares its digest."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from core.api.errors import NotEnoughMemoryError
from core.loading.fingerprint import NUMERICS_VERSION
from core.loading.plan import HeldPlan
from core.storage.rows import TILES, WEIGHTS, Blob
from core.storage.store import DiskStore
from kernels.common.memory import FileArena
from kernels.linear.blocks import BlockFormat

log = logging.getLogger(__name__)

FORMAT = "waymark-tiles-1"
# By default tiles of all models take at most this share of the free disk space.
TILES_SHARE = 0.5
TILE_NOTES = "tile files"


@dataclass(frozen=True, slots=True)
class TileFile:
    """`most_bytes` is the user's limit for weights on disk."""

    blobs: DiskStore
    plan: HeldPlan
    most_bytes: int | None = None

    def find(self, digest: str, advance: Callable[[int], None]) -> FileArena | None:
        """`advance` gets the bytes that were read to compare them, and may raise."""
        arena = self.open(digest)
        if arena is not None and arena.digest(advance) != self._noted(digest)[1]:
            self._lose(digest, "it was damaged")
            return None
        return arena

    def open(self, digest: str) -> FileArena | None:
        name, size = self._name(digest), self.plan.mapped_bytes
        if self.blobs.size(TILES, name) != size:
            return None
        try:
            path = self.blobs.path(TILES, name)
            if self._noted(digest)[0] == _facts(path.stat()):
                self.blobs.touch(TILES, name)
                return FileArena(path, size, filled=True)
            self._lose(digest, "it was changed")
        except OSError as error:
            self._lose(digest, error.strerror or f"{error}")
        return None

    def begin(self) -> FileArena:
        """Raises NotEnoughMemoryError if the disk has no room for the file."""
        size = self.plan.mapped_bytes
        try:
            if self.blobs.make_room(_blob("", size), self._cap()):
                self.blobs.drop_part(TILES)
                return FileArena(self.blobs.part(TILES), size, filled=False)
            reason = "more than half of what is free, or than the limit for weights on disk"
        except OSError as error:
            reason = error.strerror or "it can't be written"
        raise NotEnoughMemoryError(
            "The model is larger than free memory. To read it from disk as it is needed takes "
            f"{size / 1e9:.1f} GB in {self.blobs.folder}: {reason}."
        )

    def finish(self, digest: str, of_tiles: str) -> None:
        """Keep a filled and closed file, and the digest of its tiles. Raises OSError."""
        name = self._name(digest)
        facts = _facts(self.blobs.part(TILES).stat())
        self.blobs.write_note(TILE_NOTES, name, f"{facts}\n{of_tiles}")
        self.blobs.adopt(_blob(name, self.plan.mapped_bytes), sync=True)

    def _noted(self, digest: str) -> tuple[str, str]:
        facts, _, of_tiles = (self.blobs.note(TILE_NOTES, self._name(digest)) or "").partition("\n")
        return facts, of_tiles

    def _lose(self, digest: str, reason: str) -> None:
        name = self._name(digest)
        log.warning("%s is made again: %s.", name[:12], reason)
        self.blobs.lose(TILES, name)

    def _name(self, digest: str) -> str:
        tensors = [
            (name, spec.shape, str(spec.blocks.type))
            for name, spec in self.plan.tensors.items()
            if isinstance(spec.blocks, BlockFormat)
        ]
        facts = json.dumps([FORMAT, NUMERICS_VERSION, digest, self.plan.config, tensors])
        return f"{hashlib.blake2b(facts.encode(), digest_size=32).hexdigest()}.tiles"

    def _cap(self) -> int:
        if self.most_bytes is not None:
            return self.most_bytes
        return self.blobs.share_of_disk(TILES_SHARE, TILES)


def _facts(status: os.stat_result) -> str:
    return json.dumps([status.st_size, status.st_mtime_ns, status.st_uid])


def _blob(name: str, num_bytes: int) -> Blob:
    return Blob(TILES, name, num_bytes, owners=(WEIGHTS,))
