"""Memory in large pages where the system has them, which goes back to it when its tensor goes.

A generated token reads every weight once. With pages of 4 KiB it looks up hundreds of thousands of
them as it goes, and what prefetches stops at the end of each; with 2 MiB it is far fewer.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

_WORTH_MAPPING = 2**20  # smaller ones aren't worth the call, nor a page of 2 MiB
_COLLAPSE = 25  # MADV_COLLAPSE, which Python has no name for


def mapped(num_bytes: int) -> Tensor:
    """Bytes [num_bytes], zeros; only what is written to takes memory. Raises OSError."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
    memory = mmap.mmap(-1, num_bytes, **private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


def room(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor without content: if it is large and on the CPU, in memory of its own, which goes
    back to the system when it goes.

    The C library keeps freed blocks of up to 32 MB for itself, and lays what comes next all over
    the holes. Raises OSError, RuntimeError.
    """
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes < _WORTH_MAPPING or device.type != "cpu":
        return torch.empty(tuple(shape), dtype=dtype, device=device)
    return mapped(num_bytes).view(dtype).view(tuple(shape))


def enlarge(tensor: Tensor) -> None:
    """Put what lies somewhere already into large pages, where the system can (Linux 6.1)."""
    if sys.platform != "linux":
        return
    first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (tensor.data_ptr() + tensor.nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    for advice in (mmap.MADV_HUGEPAGE, _COLLAPSE) if size > 0 else ():
        # It is advice: whatever comes of it, the numbers stay.
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), advice)
