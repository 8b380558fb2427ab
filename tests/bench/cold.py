"""`python -m tests.bench.cold FILE.gguf [FOLDER]`: decodes with weights mapped from disk, as for a
model larger than free memory, while their pages are in memory and evicted before each token."""

from __future__ import annotations

import ctypes
import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import torch

from core.api.model_info import HEADROOM_BYTES
from core.api.params import ModelSettings
from core.api.prompt import Prompt, TextRun
from core.engine.loaded import fix_threads, load
from core.engine.passes.decode import Decode
from core.loading.model import read_model
from core.loading.plan import HeldPlan
from core.storage.rows import TILES
from core.storage.store import DiskStore
from kernels.common.memory import FileArena
from tests.bench.beside import go_on, start_of
from tests.bench.peer import prompt_ids

TOKENS = 16
MAPPED: list[tuple[int, int]] = []  # address and bytes


class Noted(FileArena):
    def __init__(self, path: Path, num_bytes: int, *, filled: bool) -> None:
        super().__init__(path, num_bytes, filled=filled)
        if filled:
            MAPPED.append((self._octets.data_ptr(), num_bytes))


def read_mapped(plan: HeldPlan, *given: Any, **options: Any) -> Any:
    """Read a model as on a machine whose free memory holds all but the blocks."""
    room = plan.num_bytes - plan.mapped_bytes + HEADROOM_BYTES
    return read_model(plan, *given, **options, available=lambda device: room)


@torch.inference_mode()
def main() -> None:
    fix_threads()
    with (
        patch("core.engine.loaded.read_model", read_mapped),
        patch("core.loading.tile_file.FileArena", Noted),
        tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name,
    ):
        folder = Path(name)
        settings = ModelSettings(path=sys.argv[1], precision="published", cache_folder=name)
        loaded = load(settings, lambda done, total: None, go_on, partial(DiskStore, folder))
        prompt = Prompt((TextRun(prompt_ids(1)),), frozenset(), settings.grid)
        start, buffer = start_of(loaded, prompt), loaded.cache.kv_buffer.beside(64)
        decode = Decode(loaded.model, buffer, start.state, start.cut, go_on, loaded.steps)
        (tiles,) = (folder / TILES).glob("*")

        def evict() -> None:
            """Pages leave the system's cache only if no process maps them."""
            for each in MAPPED:
                ctypes.CDLL(None).madvise(*map(ctypes.c_void_p, each), mmap.MADV_DONTNEED)
            with tiles.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        os.sync()
        for words, before in (("in memory", None), ("evicted", evict)):
            print(words, *measured(decode, list(prompt_ids(1)), before))


def measured(decode: Decode, ids: list[int], before: Callable[[], None] | None) -> tuple[str, str]:
    """Median seconds of a token, and the bytes that it read from disk."""
    seconds, read = [], []
    for _ in range(TOKENS):
        if before is not None:
            before()
        read_before, began = _read_bytes(), time.monotonic()
        ids = [int(decode.step(ids).argmax())]
        seconds.append(time.monotonic() - began)
        read.append(_read_bytes() - read_before)
    return f"{statistics.median(seconds):.3f} s", f"{statistics.median(read) / 1e6:,.0f} MB"


def _read_bytes() -> int:
    counters = psutil.disk_io_counters()
    return 0 if counters is None else counters.read_bytes


if __name__ == "__main__":
    main()
