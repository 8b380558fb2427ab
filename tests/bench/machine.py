"""The measured machine: its name, and how fast it reads and multiplies at best.

A limit is measured just before and after each figure it is compared with: the memory of a shared
machine can be twice as fast a minute later.
"""

from __future__ import annotations

import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Product:
    dtype: torch.dtype
    operations: int
    call: Callable[[], Tensor]

    def rate(self) -> float:
        """Operations a second of one call."""
        return self.operations / seconds_of(self.call)


def machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    model = platform.processor() or platform.machine()
    with_name = [
        line.partition(":")[2].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    ]
    return f"{(with_name or [model])[0]}, {psutil.cpu_count()} cores, {memory:.0f} GiB"


class Bounds(Protocol):
    """The limits of a device, measured anew with every call."""

    def move(self) -> float: ...

    def multiply(self, dtype: torch.dtype) -> float: ...


class Limits:
    """The limits of this machine on torch's threads; every call measures anew.

    `taken` are all results so far, in bytes or operations a second, by READING or by type.
    """

    def __init__(self, read_bytes: int = READ_BYTES, rows: Iterable[int] = PRODUCT_ROWS) -> None:
        # Ones, not zeros: the system backs untouched zeros with a single page.
        self._memory = torch.ones(read_bytes // 4)
        self._rows = tuple(rows)
        self._products: dict[torch.dtype, list[Product]] = {}
        self.taken: defaultdict[str, list[float]] = defaultdict(list)

    def move(self) -> float:
        """Bytes a second of the fastest of three ways to read memory from end to end."""
        first, second = self._memory.chunk(2)
        streams = self._memory.view(STREAMS, -1)
        ways = (lambda: torch.dot(first, second), lambda: streams.sum(1), lambda: streams.amax(1))
        found = self._memory.nbytes / min(map(seconds_of, ways))
        self.taken[READING].append(found)
        return found

    def multiply(self, dtype: torch.dtype) -> float:
        """Operations a second of the fastest of torch's matrix products in `dtype`, or in float32
        if that is faster."""
        known = self._products.get(dtype)
        products = known or [
            each for kind in {dtype, torch.float32} for each in _products(kind, self._rows)
        ]
        rates = [each.rate() for each in products]
        fastest = max(rates)
        if known is None:  # one far behind would take seconds before and after every turn
            timed = zip(products, rates, strict=True)
            self._products[dtype] = [each for each, rate in timed if 2 * rate > fastest]
        for kind in {each.dtype for each in products}:
            timed = zip(products, rates, strict=True)
            best = max(rate for each, rate in timed if each.dtype == kind)
            self.taken[str(kind).removeprefix("torch.")].append(best)
        return fastest


def seconds_of(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _products(dtype: torch.dtype, rows: Iterable[int]) -> Iterable[Product]:
    """Weights as published, and packed for so many rows. The first call chooses a kernel."""
    weight = torch.ones(PRODUCT_SHAPE, dtype=dtype)
    for count in rows:
        inputs = torch.ones(count, PRODUCT_SHAPE[1], dtype=dtype)
        calls = [_call(F.linear, inputs, weight)]
        if can_pack(dtype):
            packed = torch.ops.mkldnn._reorder_linear_weight(weight, count)
            product = torch.ops.mkldnn._linear_pointwise
            calls.append(_call(product, inputs, packed, None, "none", [], ""))
        for call in calls:
            call()
            yield Product(dtype, 2 * count * weight.numel(), call)


def _call(function: Callable[..., Tensor], *arguments: object) -> Callable[[], Tensor]:
    return lambda: function(*arguments)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
