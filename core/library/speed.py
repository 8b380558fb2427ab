"""How fast this machine multiplies by a matrix of one format, measured once and remembered.

A generated token takes the bytes of the weights over the bytes a second of one row, a prompt its
multiplications over those a second of many rows. Recurrent layers come on top (`machine`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from core.api.params import Frozen
from core.library.messages import Seconds
from kernels.linear.reference import Matrix

# Several matrices of 16 million weights, which together don't fit into a processor's caches.
OUTPUTS = INPUTS = 4096
_BYTES = 96 * 2**20
_MOST_MATRICES = 16
_ROWS = 256
_ROUNDS = 3


class Rate(Frozen):
    """Seconds for a byte of the weights, one row at a time, and for a weight and a prompt row."""

    byte_s: Seconds
    product_s: Seconds

    def faster(self, other: Rate) -> Rate:
        return Rate(
            byte_s=min(self.byte_s, other.byte_s),
            product_s=min(self.product_s, other.product_s),
        )


def measure(
    make: Callable[[], Matrix], num_bytes: int, dtype: torch.dtype, device: torch.device
) -> Rate:
    """The rate of matrices [OUTPUTS, INPUTS] of `num_bytes`."""
    count = min(_MOST_MATRICES, max(1, -(-_BYTES // num_bytes)))
    matrices = [make() for _ in range(count)]
    one, many = (torch.ones(rows, INPUTS, dtype=dtype, device=device) for rows in (1, _ROWS))

    def steps() -> None:
        for matrix in matrices:
            matrix.step(one)

    return Rate(
        byte_s=_best(steps, device) / (count * num_bytes),
        product_s=_best(lambda: matrices[0](many), device) / (OUTPUTS * INPUTS * _ROWS),
    )


def _best(work: Callable[[], object], device: torch.device) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return best
