"""The folder of quantised matrices: one file for each model and form, under a cap of bytes.

Knows which file goes first and what the disk must have left. What is in a file is kept_file's.
Nothing here fails a load: what can't be kept is quantised again next time, and the log says why.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable
from pathlib import Path

from core.loading.quantised.kept_file import Disk, Entry, KeptDamagedError, KeptFile, KeptWriter
from core.loading.quantised.kept_layout import KeptLayout

log = logging.getLogger(__name__)

_ENDING = ".safetensors"
_UNFINISHED = f".new-matrices{_ENDING}"
# What else lies in the folder was put there by others, and is theirs.
_OURS = re.compile(rf"[0-9a-f]{{64}}{_ENDING}|{re.escape(_UNFINISHED)}")


class KeptStore:
    """Files by key, the least recently used of which goes first.

    `cap` are the bytes that all of them may take; `excess` says by how many bytes writing so many
    would leave too little room on the disk. One store at a time may be used on a folder.
    """

    def __init__(self, folder: Path, cap: int, excess: Callable[[int], int], disk: Disk) -> None:
        self.folder = folder
        self._cap, self._excess, self._disk = cap, excess, disk

    @property
    def num_bytes(self) -> int:
        """Bytes that all files take."""
        return sum(entry.num_bytes for entry in self._entries())

    def find(self, key: str, layout: KeptLayout) -> KeptFile | None:
        """The file of this key, now the most recently used; one that is damaged is deleted."""
        path = self._path(key)
        try:
            found = KeptFile(path, layout, key)
        except FileNotFoundError:
            return None
        except (OSError, KeptDamagedError) as error:
            self.give_up(path, f"{error}")
            return None
        with contextlib.suppress(OSError):  # the order is a wish
            self._disk.mark_used(path)
        return found

    def begin(self, layout: KeptLayout) -> KeptWriter | None:
        """Start a file, with room made for it; None where there is none."""
        if layout.num_bytes > self._cap:
            sizes = layout.num_bytes / 1e9, self._cap / 1e9
            log.warning("Quantised matrices are not kept: they take %.2f GB of %.2f.", *sizes)
            return None
        try:
            self._disk.make_folder(self.folder)
            self._trim(layout.num_bytes)
            self._disk.delete(self.folder / _UNFINISHED)  # whatever it is, it is not written into
            if self._excess(layout.num_bytes) > 0:
                log.warning("Quantised matrices are not kept: the disk is too full.")
                return None
        except OSError as error:
            log.warning("Quantised matrices are not kept: %s.", error.strerror)
            return None
        return KeptWriter(self.folder / _UNFINISHED, layout, self._excess, self._disk)

    def finish(self, writer: KeptWriter, key: str) -> None:
        """Put what was written in its place."""
        if not writer.finish(key, self._path(key)):
            log.warning("Quantised matrices are not kept: %s.", writer.trouble)

    def trim(self) -> None:
        """Delete what a load that died has left, and what the cap has no room for."""
        try:
            self._trim(0)
        except OSError as error:
            log.warning("Quantised matrices can't be deleted: %s.", error.strerror)

    def give_up(self, path: Path, reason: str) -> None:
        """Delete a file that is of no use."""
        log.warning("%s is read from the weights again: %s.", path.name[:12], reason)
        with contextlib.suppress(OSError):
            self._disk.delete(path)

    def delete_all(self) -> None:
        """Delete all files. Raises OSError, after all of them have been tried."""
        failed: OSError | None = None
        for entry in self._entries():
            try:
                self._disk.delete(self.folder / entry.name)
            except OSError as error:
                failed = error
        if failed is not None:
            raise failed

    def _trim(self, num_bytes: int) -> None:
        """Make the files fit with `num_bytes` more; what was never finished goes first."""
        entries = self._entries()
        total = num_bytes + sum(entry.num_bytes for entry in entries)
        for entry in sorted(entries, key=lambda each: (each.name != _UNFINISHED, each.used)):
            if total <= self._cap and entry.name != _UNFINISHED:
                return
            self._disk.delete(self.folder / entry.name)
            total -= entry.num_bytes

    def _entries(self) -> list[Entry]:
        try:
            found = self._disk.list(self.folder)
        except FileNotFoundError:
            return []
        return [entry for entry in found if _OURS.fullmatch(entry.name)]

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_ENDING}"
