"""A GPU's ops, measured and told: a table for each precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch

from tests.bench.gpu import rounds
from tests.bench.gpu.case import Case, Numbers, Sizes
from tests.bench.gpu.cases import cases
from tests.bench.gpu.clock import Clock
from tests.bench.gpu.delta import delta_cases
from tests.bench.gpu.matrices import matrix_cases
from tests.bench.gpu.tables import ops_table, summary
from tests.bench.machine import Bounds
from tests.bench.ops import FLOATS, INTEGERS

LINE_END = "\n"


def ops_text(
    precisions: Iterable[str],
    sizes: Sizes,
    device: torch.device,
    limits: Bounds,
    clock: Clock,
    say: Callable[[str], None],
) -> str:
    """Every op of every precision, in rounds."""
    texts = []
    for precision in precisions:
        measured, failed = [], []
        for case in all_cases(Numbers(sizes, device), precision):
            say(f"{precision}: {case.name}")
            # A GPU is there for minutes: what one op can't do must not cost what the others did.
            try:
                measured.append(rounds.measure(case, limits, clock, sizes))
            except Exception as error:
                what = f"{type(error).__name__}: {str(error).partition(LINE_END)[0]}"
                failed.append(f"Not measured: {case.name} ({what}).")
            else:
                say(summary(measured[-1]))
        told = "".join(f"\n{each}\n" for each in failed)
        texts.append(f"**{precision}**\n\n{ops_table(measured)}{told}")
    return "\n".join(texts)


def all_cases(numbers: Numbers, precision: str) -> Iterator[Case]:
    """Of a precision that is no type of floats the matrices alone: the rest is as in bfloat16."""
    dtype = FLOATS.get(precision, torch.bfloat16)
    yield from matrix_cases(numbers, dtype, INTEGERS.get(precision))
    if precision in FLOATS:
        yield from delta_cases(numbers)
        yield from cases(numbers, dtype)
