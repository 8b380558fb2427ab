"""How many threads compute: a number fixed when the process starts, for the split of a sum over
threads can change its last bits."""

from __future__ import annotations

import os

import psutil
import torch


def fix_threads() -> None:
    """One thread a physical core, unless OMP_NUM_THREADS says otherwise; no pool beside it."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(psutil.cpu_count(logical=False) or os.cpu_count() or 1)
    torch.set_num_interop_threads(1)
