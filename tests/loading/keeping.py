"""Settled weights files, stores of quantised matrices on a roomy disk, and a count of reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import pytest

from core.loading.quantised_store import QuantisedStore
from core.storage.files import Files
from core.storage.rows import WEIGHTS
from core.storage.store import DiskStore
from core.weights import stream
from tests.storage.disks import PLENTY, RoomyFiles

WRITTEN_NS = 10**18  # long before any load


def settle(folder: Path, when: int = WRITTEN_NS) -> None:
    """Date all weights files below `folder` back."""
    for path in folder.rglob("*.safetensors"):
        os.utime(path, ns=(when, when))


def store_in(
    folder: Path,
    cap: int = PLENTY,
    files: Files | None = None,
    conditions: str = "",
    clock: Callable[[], int] = time.time_ns,
) -> QuantisedStore:
    return QuantisedStore(DiskStore(folder, 0, files or RoomyFiles()), cap, conditions, clock)


def kept_in(store: QuantisedStore) -> list[Path]:
    """The files of quantised matrices, finished or not."""
    return sorted((store.blobs.folder / WEIGHTS).glob("*"))


@contextmanager
def counted_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Bytes of each read of a weights file's tensors."""
    counts: list[int] = []
    real = stream.fill

    def fill(file: FileIO, view: memoryview, path: Path) -> None:
        counts.append(len(view))
        real(file, view, path)

    with monkeypatch.context() as patched:
        patched.setattr(stream, "fill", fill)
        yield counts
