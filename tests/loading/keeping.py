"""Weights files that have settled, stores on a roomy disk, and a count of what is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import pytest

from core.loading import read_plan, stream
from core.loading.quantised_store import Keeping, QuantisedStore
from core.storage.files import Files
from core.storage.rows import WEIGHTS
from core.storage.store import DiskStore
from tests.storage.disks import PLENTY, RoomyFiles

# Long before any load, so that what is read is remembered.
WRITTEN_NS = 10**18


def settle(folder: Path, when: int = WRITTEN_NS) -> None:
    """Have all weights files below `folder` written long ago."""
    for path in folder.rglob("*.safetensors"):
        os.utime(path, ns=(when, when))


def store_in(folder: Path, cap: int = PLENTY, files: Files | None = None) -> QuantisedStore:
    """A store on a disk that is never full."""
    return QuantisedStore(DiskStore(folder, 0, files or RoomyFiles()), cap)


def keeping_in(
    folder: Path, conditions: str = "", cap: int = PLENTY, files: Files | None = None
) -> Keeping:
    """What loads keep in `folder`."""
    store = store_in(folder, cap, files)
    return Keeping(store, conditions)


def kept_in(store: QuantisedStore) -> list[Path]:
    """The files of quantised matrices, and what was not finished."""
    return sorted((store.blobs.folder / WEIGHTS).glob("*"))


@contextmanager
def counted_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Bytes of each read of a weights file's tensors."""
    counts: list[int] = []
    real = read_plan.fill

    def fill(file: FileIO, view: memoryview, path: Path) -> None:
        counts.append(len(view))
        real(file, view, path)

    with monkeypatch.context() as patched:
        patched.setattr(stream, "fill", fill)
        patched.setattr(read_plan, "fill", fill)
        yield counts
