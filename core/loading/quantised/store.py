"""Quantised matrices in the store on disk: one file a model and format, under a cap of bytes.

What is in one is `file`'s. Nothing here fails a load: what can't be kept is quantised again
next time, and the log says why.
"""

from __future__ import annotations

import logging

from core.loading.quantised.file import QuantisedDamagedError, QuantisedFile, QuantisedWriter
from core.loading.quantised.layout import QuantisedLayout
from core.storage.rows import WEIGHTS, Blob
from core.storage.store import DiskStore

log = logging.getLogger(__name__)


class QuantisedStore:
    """Files by key; `cap` are the bytes that all of them may take."""

    def __init__(self, blobs: DiskStore, cap: int) -> None:
        self.blobs, self._cap = blobs, cap

    @property
    def num_bytes(self) -> int:
        """Bytes that all files take."""
        return self.blobs.num_bytes(WEIGHTS)

    def find(self, key: str, layout: QuantisedLayout) -> QuantisedFile | None:
        """The file of this key, now the most recently used; one that is damaged is deleted."""
        name = _name(key)
        if self.blobs.size(WEIGHTS, name) is None:
            return None
        try:
            found = QuantisedFile(self.blobs.path(WEIGHTS, name), layout, key)
        except (OSError, QuantisedDamagedError) as error:
            self.give_up(key, f"{error}")
            return None
        self.blobs.touch(WEIGHTS, name)
        return found

    def begin(self, layout: QuantisedLayout) -> QuantisedWriter | None:
        """Start a file, with room made for it; None where there is none."""
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
        """Put what was written in its place."""
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
        """Delete what the cap has no room for."""
        try:
            self.blobs.shrink(WEIGHTS, self._cap)
        except OSError as error:
            log.warning("Quantised matrices can't be deleted: %s.", error.strerror)

    def give_up(self, key: str, reason: str) -> None:
        """Delete a file that is of no use."""
        log.warning("%s is read from the weights again: %s.", key[:12], reason)
        self.blobs.lose(WEIGHTS, _name(key))

    def delete_all(self) -> None:
        """Delete all files. Raises OSError."""
        self.blobs.forget(WEIGHTS)


def _name(key: str) -> str:
    return f"{key}.safetensors"


def _blob(key: str, num_bytes: int) -> Blob:
    return Blob(WEIGHTS, _name(key), num_bytes, owners=(WEIGHTS,))
