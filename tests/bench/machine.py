"""The machine that measures: its name, and how fast it reads and multiplies at its best.

A limit is measured as often as what is held against it, just before and after: the memory of a
shared machine is twice as fast in one minute as in the next.
"""

from __future__ import annotations

import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import psutil
import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.linear.cpu import can_pack

READING = "reading"
STREAMS = 16
# More than any cache that a processor keeps for itself.
READ_BYTES = 512 * 2**20
# As wide as the widest matrix of the 0.8B shape; which number of rows goes fastest differs.
PRODUCT_SHAPE = (7168, 1024)
PRODUCT_ROWS = (256, 512, 1024)


def machine() -> str:
    """The computer in a few words."""
    memory = psutil.virtual_memory().total / 2**30
    model = platform.processor() or platform.machine()
    with_name = [
        line.partition(":")[2].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    ]
    return f"{(with_name or [model])[0]}, {psutil.cpu_count()} cores, {memory:.0f} GiB"


class Bounds(Protocol):
    """What a device can do at its best, measured anew with every call."""

    def move(self) -> float:
        """Bytes a second."""
        ...

    def multiply(self, dtype: torch.dtype) -> float:
        """Operations a second."""
        ...


class Limits:
    """What this machine can do on torch's threads. Every call measures anew, in a moment.

    `taken` are all answers so far, in bytes or operations a second, by READING or by type.
    """

    def __init__(self, read_bytes: int = READ_BYTES, rows: Iterable[int] = PRODUCT_ROWS) -> None:
        # Ones, not zeros: the system backs untouched zeros with a single page.
        self._memory = torch.ones(read_bytes // 4)
        self._rows = tuple(rows)
        self._products: dict[torch.dtype, list[tuple[int, Callable[[], Tensor]]]] = {}
        self.taken: defaultdict[str, list[float]] = defaultdict(list)

    def move(self) -> float:
        """Bytes a second of the fastest of three ways to read memory from end to end."""
        first, second = self._memory.chunk(2)
        streams = self._memory.view(STREAMS, -1)
        ways = (
            lambda: torch.dot(first, second),
            lambda: streams.sum(1),
            lambda: streams.amax(1),
        )
        found = self._memory.nbytes / min(map(seconds_of, ways))
        self.taken[READING].append(found)
        return found

    def multiply(self, dtype: torch.dtype) -> float:
        """Operations a second of the fastest of torch's matrix products in `dtype`."""
        if dtype not in self._products:
            self._products[dtype] = list(_products(dtype, self._rows))
            for _, way in self._products[dtype]:
                way()  # the first call of each product chooses its kernel
        found = max(count / seconds_of(way) for count, way in self._products[dtype])
        self.taken[str(dtype).removeprefix("torch.")].append(found)
        return found


def seconds_of(call: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _products(
    dtype: torch.dtype, rows: Iterable[int]
) -> Iterable[tuple[int, Callable[[], Tensor]]]:
    """Products with their operations: weights as published, and packed for so many rows."""
    weight = torch.ones(PRODUCT_SHAPE, dtype=dtype)
    for count in rows:
        inputs = torch.ones(count, PRODUCT_SHAPE[1], dtype=dtype)
        operations = 2 * count * weight.numel()
        yield operations, _call(F.linear, inputs, weight)
        if can_pack(dtype):
            packed = torch.ops.mkldnn._reorder_linear_weight(weight, count)
            product = torch.ops.mkldnn._linear_pointwise
            yield operations, _call(product, inputs, packed, None, "none", [], "")


def _call(function: Callable[..., Tensor], *arguments: object) -> Callable[[], Tensor]:
    return lambda: function(*arguments)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
