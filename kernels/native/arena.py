"""Memory for weights that stay: in large pages where the system has them.

A generated token reads every weight once. With pages of 4 KiB it looks up hundreds of thousands of
them as it goes, and what prefetches stops at the end of each; with 2 MiB it is far fewer.
"""

from __future__ import annotations

import mmap

import torch
from torch import Tensor

_CHUNK = 64 * 2**20
_ALIGNED_TO = 64  # a cache line


class Arena:
    """Places tensors one behind the other. A chunk goes when the last tensor in it has gone."""

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def place(self, tensor: Tensor) -> Tensor:
        """The same numbers, contiguous, in memory of the arena."""
        if tensor.nbytes == 0:
            return tensor
        if self._used + tensor.nbytes > self._chunk.nbytes:
            self._chunk, self._used = _chunk(max(_CHUNK, tensor.nbytes)), 0
        octets = self._chunk[self._used : self._used + tensor.nbytes]
        self._used += -(-tensor.nbytes // _ALIGNED_TO) * _ALIGNED_TO
        return octets.view(tensor.dtype).view(tensor.shape).copy_(tensor)


def _chunk(num_bytes: int) -> Tensor:
    """Only what is written to takes any memory."""
    memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)
