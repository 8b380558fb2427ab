"""Free memory before a load, memory for tensors, and returning freed memory to the system."""

from __future__ import annotations

import ctypes
import math
import sys

import psutil
import torch
from torch import Tensor

from core.api.errors import NotEnoughMemoryError
from kernels.common.memory import room

CPU = torch.device("cpu")
# Trimming visits every free block: after each of ten thousand small matrices it would take longer
# than reading them.
TRIM_BYTES = 16 * 2**20


def available_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free
    return int(psutil.virtual_memory().available)


def allocate(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device = CPU) -> Tensor:
    """Uninitialised. Raises NotEnoughMemoryError."""
    try:
        return room(shape, dtype, device)
    # Torch's CPU allocator has no class of its own for this; the system's is an OSError.
    except (RuntimeError, OSError) as error:
        num_bytes = math.prod(shape) * dtype.itemsize
        raise NotEnoughMemoryError(
            f"No room for the next {num_bytes / 1e6:,.0f} MB of the model."
        ) from error


def release_to_system() -> None:
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


class FreedBlocks:
    def __init__(self) -> None:
        self._bytes = 0

    def add(self, num_bytes: int) -> None:
        self._bytes += num_bytes
        if self._bytes >= TRIM_BYTES:
            self._bytes = 0
            release_to_system()


FREED = FreedBlocks()  # for the heap of this process
