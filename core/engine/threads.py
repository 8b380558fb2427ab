"""How many threads compute. Prompts are read with one number, fixed when the process starts: the
split of a sum over threads can change its last bits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch


def fix_threads() -> None:
    """One thread a physical core, unless OMP_NUM_THREADS says otherwise; no pool beside it."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(psutil.cpu_count(logical=False) or os.cpu_count() or 1)
    torch.set_num_interop_threads(1)


@contextmanager
def computing_with(count: int) -> Iterator[None]:
    """Inside, this thread's operations run on `count` threads; afterwards on as many as before."""
    before = torch.get_num_threads()
    if count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
