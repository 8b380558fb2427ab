"""Measures what is fastest on this processor.

Answers change bits, so callers remember them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import torch

from kernels.linear.cpu import PackedFormat
from kernels.linear.int8 import Int8Format, multiplies_integers
from kernels.linear.native import NativeBfloatFormat, Product
from kernels.linear.reference import Matrix, WeightFormat
from kernels.native.levels import machine
from kernels.native.library import Library

CHOICES = (64, 128, 256, 512)
_ROWS = 512  # of a run between two cuts of long text
_SHAPE = (2048, 1024)  # outputs, inputs: 4 MB in bfloat16, 1 to 4 ms a run on two cores
_ROUNDS = 5
# On two cores at AVX2, whose bfloat16 is slow, the first round alone takes 0.3 s.
_PATIENCE_S = 0.2
# Past most processors' caches: 32 MB in bfloat16. Generating is waiting for memory.
_LARGE = (4096, 4096)
_RUN = 64
_RUNS_A_TOKEN = 1 / 16  # a prompt of four tokens for each that is generated

# float32 must be so much faster to be worth twice the memory. With compiled kernels it never is on
# an idle machine; with one core busy their threads lose more than torch's, and a smaller margin
# once chose it, for good.
_WORTH_ITS_MEMORY = 1.5
# Torch's own product must be so much faster to be worth that its bits depend on the number of rows.
_MARGIN = 1.1

Clock = Callable[[], float]
T = TypeVar("T")


def best_rows(
    dtype: torch.dtype, integers: str | None = None, clock: Clock = time.perf_counter
) -> int:
    """The slice size with which 512 rows are fastest, by its best round."""
    as_integers = integers == "int8" and multiplies_integers()
    inputs, weight = torch.ones(_ROWS, _SHAPE[1], dtype=dtype), torch.ones(_SHAPE, dtype=dtype)
    matrices = {}
    for rows in CHOICES:
        weight_format: WeightFormat = Int8Format(rows) if as_integers else PackedFormat(rows)
        matrices[rows] = weight_format.prepack(weight_format.quantise(weight), None)
    seconds = dict.fromkeys(CHOICES, float("inf"))
    for rows, matrix in _in_turns(matrices):
        seconds[rows] = min(seconds[rows], _seconds(matrix, inputs, clock))
    return min(CHOICES, key=lambda rows: seconds[rows])


def best_product(library: Library, clock: Clock = time.perf_counter) -> Product:
    """The library's is preferred within a tenth, because its rows can share a call. Torch's is not
    considered on arm64, where it errs by more than rounding."""
    inputs = torch.ones(_ROWS, _SHAPE[1], dtype=torch.bfloat16)
    weight = torch.ones(_SHAPE, dtype=torch.bfloat16)
    own: list[Product] = ["pairs", "floats"] if library.has_pairs else ["floats"]
    products = {each: NativeBfloatFormat(library, each).prepack((weight,), None) for each in own}
    if machine() != "arm64":
        products["torch"] = NativeBfloatFormat(library, "torch").prepack((weight,), None)
    seconds = dict.fromkeys(products, float("inf"))
    for product, matrix in _in_turns(products):
        seconds[product] = min(seconds[product], _seconds(matrix, inputs, clock))
    best = min(own, key=lambda product: seconds[product])
    others = seconds.get("torch", float("inf"))
    return "torch" if others * _MARGIN < seconds[best] else best


def faster_float(
    formats: Mapping[torch.dtype, WeightFormat], clock: Clock = time.perf_counter
) -> torch.dtype:
    """By one large matrix; a larger type has to be clearly faster."""
    matrices = {
        dtype: held.prepack(held.quantise(torch.ones(_LARGE, dtype=dtype)), None)
        for dtype, held in formats.items()
    }
    seconds = dict.fromkeys(matrices, float("inf"))
    for dtype, matrix in _in_turns(matrices):
        run = torch.ones(_RUN, _LARGE[1], dtype=dtype)
        spent = _seconds(matrix.step, run[:1], clock)
        spent += _seconds(matrix, run, clock) * _RUNS_A_TOKEN
        seconds[dtype] = min(seconds[dtype], spent)
    worth = {torch.float32: _WORTH_ITS_MEMORY}
    return min(seconds, key=lambda dtype: seconds[dtype] * worth.get(dtype, 1.0))


def _in_turns(matrices: Mapping[T, Matrix]) -> Iterator[tuple[T, Matrix]]:
    """One round, and more while there is time; busy moments hit all choices."""
    began = time.monotonic()
    for number in range(_ROUNDS):
        for choice, matrix in matrices.items():
            if number and time.monotonic() - began > _PATIENCE_S:
                return
            yield choice, matrix


def _seconds(
    multiply: Callable[[torch.Tensor], object], inputs: torch.Tensor, clock: Clock
) -> float:
    began = clock()
    multiply(inputs)
    return clock() - began
