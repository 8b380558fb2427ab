"""Free memory before a load, and returning freed memory to the system."""

from __future__ import annotations

import ctypes
import sys

import psutil
import torch

from core.api.errors import NotEnoughMemoryError

# For activations of one chunk and some room for the cache after loading.
HEADROOM_BYTES = 256 * 2**20
# Trimming visits every free block: after each of ten thousand small matrices it would take longer
# than reading them.
_TRIM_BYTES = 16 * 2**20


def available_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free
    return int(psutil.virtual_memory().available)


def release_to_system() -> None:
    """Return freed memory to the system where the C library would keep it (glibc)."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


class FreedBlocks:
    def __init__(self) -> None:
        self._bytes = 0

    def add(self, num_bytes: int) -> None:
        self._bytes += num_bytes
        if self._bytes >= _TRIM_BYTES:
            self._bytes = 0
            release_to_system()


FREED = FreedBlocks()  # for the heap of this process


def check_memory(needed: int, available: int, device: torch.device) -> None:
    if needed + HEADROOM_BYTES <= available:
        return
    place = "on the graphics card" if device.type == "cuda" else "of memory"
    raise NotEnoughMemoryError(
        f"The model needs {_gigabytes(needed + HEADROOM_BYTES)} {place}, "
        f"{_gigabytes(available)} is free."
    )


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"
