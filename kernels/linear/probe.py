"""How many rows a packed matrix should take at once on this processor: tried out in a moment.

The answer changes bits, so whoever asks keeps it: a second answer would make a stranger of every
context that was read under the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from kernels.linear.cpu import PackedMatrix

CHOICES = (64, 128, 256, 512)
_ROWS = 512  # of a run between two cuts of long text
_SHAPE = (2048, 1024)  # outputs, inputs: 4 MB in bfloat16, 1 to 4 ms a run on two cores
_ROUNDS = 5


def best_rows(dtype: torch.dtype, clock: Callable[[], float] = time.perf_counter) -> int:
    """The choice by which 512 rows go fastest through a packed matrix, by the best of five rounds.

    The choices take turns within a round, so that a busy moment hits all of them.
    """
    inputs, weight = torch.ones(_ROWS, _SHAPE[1], dtype=dtype), torch.ones(_SHAPE, dtype=dtype)
    matrices = {rows: PackedMatrix(weight, None, rows) for rows in CHOICES}
    seconds = dict.fromkeys(CHOICES, float("inf"))
    for _ in range(_ROUNDS):
        for rows, matrix in matrices.items():
            began = clock()
            matrix(inputs)
            seconds[rows] = min(seconds[rows], clock() - began)
    return min(CHOICES, key=lambda rows: seconds[rows])
