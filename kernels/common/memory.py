"""Memory of tensors: large pages, an arena for weights, and views.

A generated token reads every weight once: with 4 KiB pages that is hundreds of thousands of address
translations, and prefetching stops at each page.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import math
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

_WORTH_MAPPING = 2**20  # smaller ones aren't worth the call, nor a page of 2 MiB
_COLLAPSE = 25  # MADV_COLLAPSE, which Python has no name for


def mapped(num_bytes: int) -> Tensor:
    """Zeroed bytes; untouched pages take no memory. Raises OSError."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
    memory = mmap.mmap(-1, num_bytes, **private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


def room(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Uninitialised. A large tensor on the CPU gets a mapping, which returns to the system when
    freed; the C library would keep and fragment it. Raises OSError, RuntimeError."""
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes < _WORTH_MAPPING or device.type != "cpu":
        return torch.empty(tuple(shape), dtype=dtype, device=device)
    return mapped(num_bytes).view(dtype).view(tuple(shape))


def enlarge(tensor: Tensor) -> None:
    """Move existing memory into large pages, if the system can (Linux 6.1)."""
    if sys.platform != "linux":
        return
    first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (tensor.data_ptr() + tensor.nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
    for advice in (mmap.MADV_HUGEPAGE, _COLLAPSE) if size > 0 else ():
        # It is advice: whatever comes of it, the numbers stay.
        _libc().madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), advice)


def prefetch(address: int, num_bytes: int) -> None:
    """Read the pages of a mapped file at once; by itself the system reads one after the other, and
    as much again around each."""
    if sys.platform == "linux":
        first = address // mmap.PAGESIZE * mmap.PAGESIZE
        size = ctypes.c_size_t(address + num_bytes - first)
        _libc().madvise(ctypes.c_void_p(first), size, mmap.MADV_WILLNEED)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


# The large page at the end of a chunk takes memory whole: 3 % of small chunks. The rest of it takes
# none until it is used.
_CHUNK = 256 * 2**20
LARGEST_COPY = 64 * 2**20
_ALIGNED_TO = 64  # a cache line
_PIECE = 16 * 2**20  # that is written to the disk, or digested, at a time


class Arena:
    """Places tensors in shared chunks. A chunk is freed with its last tensor."""

    filled = False

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def place(self, tensor: Tensor) -> Tensor:
        """A contiguous copy in the arena. A very large tensor stays where it is: a copy would set
        the peak memory of a load."""
        if tensor.nbytes == 0 or (tensor.nbytes > LARGEST_COPY and tensor.is_contiguous()):
            enlarge(tensor)
            return tensor
        return self.room(tensor.nbytes).view(tensor.dtype).view(tensor.shape).copy_(tensor)

    def room(self, num_bytes: int) -> Tensor:
        if self._used + num_bytes > self._chunk.nbytes:
            self._chunk, self._used = _chunk(max(_CHUNK, num_bytes)), 0
        octets = self._chunk[self._used : self._used + num_bytes]
        self._used += -(-num_bytes // _ALIGNED_TO) * _ALIGNED_TO
        return octets


class FileArena:
    """Places tensors one after the other in a mapped file of `num_bytes`. A `filled` one has them
    and is read only."""

    def __init__(self, path: Path, num_bytes: int, *, filled: bool) -> None:
        """Raises OSError; without `filled`, the file is made."""
        self.filled, self._used = filled, 0
        with path.open("rb" if filled else "w+b") as file:
            if not filled and hasattr(os, "posix_fallocate"):
                # A page without room on the disk would end the process when it is written.
                os.posix_fallocate(file.fileno(), 0, num_bytes)
            elif not filled:
                file.truncate(num_bytes)
            access = mmap.ACCESS_READ if filled else mmap.ACCESS_WRITE
            try:
                self._memory = mmap.mmap(file.fileno(), num_bytes, access=access)
            except ValueError as error:
                raise OSError(f"{path.name} is shorter than {num_bytes:,} bytes") from error
        # Torch warns of a buffer that is read only.
        start = np.frombuffer(self._memory, np.uint8).ctypes.data
        octets = (ctypes.c_uint8 * num_bytes).from_address(start)
        # The tensor holds the octets, and these the mapping.
        octets.memory = self._memory  # type: ignore[attr-defined]
        self._octets = torch.frombuffer(octets, dtype=torch.uint8)

    def room(self, num_bytes: int) -> Tensor:
        octets = self._octets[self._used :][:num_bytes]
        if len(octets) < num_bytes:
            raise ValueError("The file of weights has no room for all of them.")
        self._used += -(-num_bytes // _ALIGNED_TO) * _ALIGNED_TO
        return octets

    def sync(self, check: Callable[[], None] = lambda: None) -> None:
        """Write what was placed to the disk, a piece at a time, because no other thread runs
        meanwhile.

        `check` is called before each piece and may raise. Raises OSError.
        """
        for start in range(0, len(self._memory), _PIECE):
            check()
            self._memory.flush(start, min(_PIECE, len(self._memory) - start))

    def digest(self, advance: Callable[[int], None]) -> str:
        """The SHA-256 of the SHA-256 of each piece, in hex. `advance` gets the bytes of each and
        may raise."""
        whole, memory = hashlib.sha256(), memoryview(self._memory)
        pieces = [memory[start : start + _PIECE] for start in range(0, len(memory), _PIECE)]
        threads = ThreadPoolExecutor(torch.get_num_threads(), thread_name_prefix="digest")
        try:
            found = threads.map(lambda piece: hashlib.sha256(piece).digest(), pieces)
            for piece, each in zip(pieces, found, strict=True):
                whole.update(each)
                advance(len(piece))
        finally:
            threads.shutdown(cancel_futures=True)
        return whole.hexdigest()


def _chunk(num_bytes: int) -> Tensor:
    try:
        return mapped(num_bytes)
    except OSError:  # torch says what is missing as it does for any other tensor
        return torch.empty(num_bytes, dtype=torch.uint8)


def dense_rows(*tensors: Tensor) -> bool:
    return all(each.stride(-1) == 1 or each.shape[-1] <= 1 for each in tensors)


def lies_in(found: Any, tensor: Tensor) -> bool:
    """True if a tensor, or each of several, shares the storage of another: some views copy."""
    parts = (found,) if isinstance(found, Tensor) else found
    place = tensor.untyped_storage().data_ptr()
    return all(each.untyped_storage().data_ptr() == place for each in parts)


def octets(tensor: Tensor) -> memoryview:
    """Not copied if it is contiguous on the CPU; writable."""
    if tensor.nbytes == 0:
        return memoryview(b"")
    return tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data
