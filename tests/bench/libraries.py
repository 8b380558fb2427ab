"""Compiled kernels of two libraries or more, paired: which compiler's code is faster, and where.

`python -m tests.bench.libraries FIRST.so SECOND.so` measures both in one process, in turns, and
prints what a call of the first takes and how many times as fast each other one is: medians of
rounds, each of which compares calls that follow each other.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernels.common.scans import DeltaInputs
from kernels.linear.native import NativeBfloatFormat, NativeInt4Format, NativeInt8Format
from kernels.linear.reference import WeightFormat
from kernels.native.library import Library
from kernels.native_ops import native_ops
from tests.bench.folders import RELEASED, Shape

Case = tuple[str, Callable[[Library], Callable[[], object]]]
_SHAPE = RELEASED["0.8B"]
# Bytes of matrices that take turns: a model's come from memory, not from a cache.
_APART = 2**27


def cases(shape: Shape = _SHAPE) -> Iterator[Case]:
    """GEMV and GEMM of each weight format, and each operation, at the 0.8B shape."""
    weights: tuple[tuple[str, Callable[[Library], WeightFormat]], ...] = (
        ("bfloat16", NativeBfloatFormat),
        ("as float32", partial(NativeBfloatFormat, product="floats")),
        ("int8", NativeInt8Format),
        ("int4", NativeInt4Format),
    )
    for name, weight_format in weights:
        for rows in (1, 32, 512):
            yield f"{name}, {rows} rows", _linear(weight_format, rows, shape)
    for name, operation in _operations(shape):
        yield name, partial(_on, operation)


def _on(operation: Callable[[Any], Callable[[], object]], library: Library) -> Callable[[], object]:
    return operation(native_ops(library))


def _linear(
    make: Callable[[Library], WeightFormat], rows: int, shape: Shape
) -> Callable[[Library], Callable[[], object]]:
    weight = _random(2 * shape.mlp, shape.hidden) / math.sqrt(shape.hidden)
    given = _random(rows, shape.hidden)

    def case(library: Library) -> Callable[[], object]:
        weight_format = make(library)
        kept = weight_format.quantise(weight)
        first = weight_format.prepack(kept, None)
        copies = math.ceil(_APART / first.num_bytes)
        matrices = cycle(
            [first] + [weight_format.prepack(_copied(kept), None) for _ in range(copies)]
        )
        if rows == 1:
            return lambda: next(matrices).step(given)
        return lambda: next(matrices)(given)

    return case


def _operations(shape: Shape) -> Iterator[tuple[str, Callable[[Any], Callable[[], object]]]]:
    heads, width, run = shape.value_heads, shape.linear_dim, 512
    rows, scale = _random(run, shape.hidden), torch.ones(shape.hidden)
    yield "rms norm, 1 row", lambda ops: lambda: ops.rms_norm(rows[:1], scale, 1e-6)
    yield "rms norm, 512 rows", lambda ops: lambda: ops.rms_norm(rows, scale, 1e-6)
    wide, taps = _random(run + 3, shape.delta_columns), torch.ones(4, shape.delta_columns)
    yield "convolution, 512 rows", lambda ops: lambda: ops.convolve(wide, taps)
    gate = _random(run, shape.mlp)
    yield "swiglu, 512 rows", lambda ops: lambda: ops.swiglu(gate, gate)
    turned, angles = _random(run, shape.heads, shape.head_dim), _random(run, shape.head_dim // 8)
    yield "rotation, 512 rows", lambda ops: lambda: ops.rotate(turned, angles, angles)
    keys = _random(8192, shape.kv_heads, shape.head_dim)
    query = _random(1, shape.heads, shape.head_dim)
    yield (
        "attention, 1 row of 8,192",
        lambda ops: lambda: ops.causal_attention(query, keys, keys, shape.head_dim**-0.5),
    )
    queries, seen = _random(run, shape.heads, shape.head_dim), keys[: 4 * run]
    yield (
        "attention, 512 rows of 2,048",
        lambda ops: lambda: ops.causal_attention(queries, seen, seen, shape.head_dim**-0.5),
    )
    state = _random(heads, width, width).float()
    one = _random(1, heads, width).float()
    key, decay = one[:, : shape.linear_heads], -one[:, :, 0].abs()
    yield (
        "delta rule, 1 row",
        lambda ops: (
            lambda: ops.recurrent_gated_delta_step(
                DeltaInputs(key, key / 20, one, decay, -decay), state
            )
        ),
    )
    many = _random(64, heads, width).float()
    some, decays = many[:, : shape.linear_heads], -many[:, :, 0].abs().contiguous()
    yield (
        "delta rule, 64 rows",
        lambda ops: (
            lambda: ops.chunked_gated_delta_(DeltaInputs(some, some, many, decays, -decays), state)
        ),
    )


def _copied(kept: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(each.clone() for each in kept)


def _random(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.randn(shape, generator=generator).bfloat16()


def measure(calls: list[Callable[[], object]], rounds: int, seconds: float) -> list[list[float]]:
    """For each call what one takes, a figure a round; in every round all take their turn."""
    began = time.perf_counter()
    calls[0]()
    repeats = max(1, int(seconds / max(time.perf_counter() - began, 1e-6)))
    found: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 1):
        for call, times in zip(calls, found, strict=True):
            began = time.perf_counter()
            for _ in range(repeats):
                call()
            times.append((time.perf_counter() - began) / repeats)
        if number == 0:
            for times in found:
                times.clear()  # caches and threads came up to speed
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("library", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", default="", help="cases whose names begin with this")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.02, help="of each call in a round")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    libraries = [Library(path.resolve()) for path in chosen.library]
    with torch.inference_mode():
        for name, case in cases():
            if not name.startswith(chosen.only):
                continue
            calls = [case(each) for each in libraries]
            first, *others = measure(calls, chosen.rounds, chosen.seconds)
            ratios = [
                statistics.median(mine / theirs for mine, theirs in zip(first, other, strict=True))
                for other in others
            ]
            words = "  ".join(f"{ratio:5.2f}x" for ratio in ratios)
            print(f"{name:28}{statistics.median(first) * 1e6:10.1f} us  {words}", flush=True)


if __name__ == "__main__":
    main()
