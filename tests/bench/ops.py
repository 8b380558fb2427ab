"""Each op of kernels/ that a processor runs, at the 0.8B shape, against the machine's limits.

An op that waits for memory is held against the bytes it has to move, one that computes against its
operations, and either beside another implementation of the same where there is one. Arguments take
turns through more memory than a processor's own caches hold, as a model's weights do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.common.scans import DeltaInputs
from kernels.dispatch import DEFAULT_ROWS, Backend, BackendName, backend
from kernels.gated_delta.reference import CHUNK, chunked_gated_delta_, recurrent_gated_delta_step
from kernels.linear.cpu import can_pack
from kernels.linear.probe import best_rows
from kernels.linear.reference import Integers, Matrix, WeightFormat
from kernels.native.library import compiled
from kernels.ops import PLAIN_OPS
from tests.bench.folders import RELEASED, TINY, Shape

Call = Callable[[int], object]
"""One call of an op on the arguments of this number."""
EPSILON = 1e-6
TAPS = 4
FLOATS = {"bfloat16": torch.bfloat16, "float32": torch.float32}
INTEGERS: dict[str, Integers] = {name: name for name in get_args(Integers)}
PLAIN: Any = PLAIN_OPS  # a type checker would take functions that a class holds for its methods


@dataclass(frozen=True)
class Sizes:
    """How much each op is given: tokens of a run, of a context, patches; bytes of arguments."""

    shape: Shape = RELEASED["0.8B"]
    run: int = 512
    context: int = 8_192
    patches: int = 1_024
    apart: int = 256 * 2**20
    rounds: int = 5
    seconds: float = 0.02


QUICK = Sizes(TINY, run=70, context=100, patches=16, apart=2**16, rounds=2, seconds=0.0)


@dataclass(frozen=True)
class Op:
    """An op with its arguments. Either `least_bytes` or `operations` (in `dtype`) is its floor."""

    name: str
    run: Call
    copies: int
    least_bytes: int = 0
    operations: int = 0
    dtype: torch.dtype = torch.float32
    other: Call | None = None
    other_name: str = ""


def all_ops(sizes: Sizes, precision: str) -> Iterator[Op]:
    """Op after op; each one's arguments are made when it is asked for.

    Of a precision that is no type of floats there are the matrices only: the rest is as in
    bfloat16.
    """
    shape, run = sizes.shape, sizes.run
    for rows in (1, run):
        yield linear(sizes, precision, "gate and up", rows, shape.hidden, 2 * shape.mlp)
        yield linear(sizes, precision, "down", rows, shape.mlp, shape.hidden)
    if precision not in FLOATS:
        return
    dtype = FLOATS[precision]
    yield delta_chunked(sizes)
    yield delta_recurrent(sizes)
    yield conv(sizes, dtype)
    yield norm(sizes, dtype)
    yield rope(sizes, dtype)
    yield prefill_attention(sizes, dtype)
    yield decode_attention(sizes, dtype)
    yield picture_attention(sizes, dtype, sizes.patches)
    yield picture_attention(sizes, dtype, 4 * sizes.patches)


def linear(sizes: Sizes, precision: str, name: str, rows: int, inputs: int, outputs: int) -> Op:
    """A matrix as the processor's backend holds it, beside torch's best for it."""
    dtype = FLOATS.get(precision, torch.bfloat16)
    weight = _random(outputs, inputs, dtype=dtype) / math.sqrt(inputs)
    packed = _matrices(_backend("cpu", precision).formats.usual, weight, sizes)
    torchs = _matrices(_backend("torch", precision).formats.usual, weight, sizes)
    first = packed[0]
    given = _random(rows, inputs, dtype=dtype)
    return Op(
        name=f"linear, {name}, {_rows(rows)}",
        run=lambda number: packed[number](given),
        copies=len(packed),
        least_bytes=first.num_bytes if rows == 1 else 0,
        operations=0 if rows == 1 else 2 * rows * weight.numel(),
        dtype=dtype,
        other=lambda number: torchs[number % len(torchs)](given),
        other_name="torch, packed",
    )


def _matrices(weight_format: WeightFormat, weight: Tensor, sizes: Sizes) -> list[Matrix]:
    """The same weight so often that the caches are full."""
    kept = weight_format.quantise(weight)  # quantised once: packing is quick beside it

    def pack() -> Matrix:
        return weight_format.prepack(tuple(each.clone() for each in kept), None)

    first = pack()
    return [first, *(pack() for _ in range(_copies(first.num_bytes, sizes) - 1))]


def delta_chunked(sizes: Sizes) -> Op:
    """A run through the delta rule: products alone, the inverse of each chunk left out."""
    arguments, states = _delta_arguments(sizes, sizes.run)
    heads, width = sizes.shape.value_heads, sizes.shape.linear_dim
    # Per token: K K^T, Q K^T, the inverse times errors, attention times delta; and K S, Q S, S + ..
    products = 4 * CHUNK * width + 3 * width * width
    return Op(
        name=f"gated delta, {_rows(sizes.run)}",
        run=lambda number: chunked_gated_delta_(arguments, states[number].clone()),
        copies=len(states),
        operations=2 * sizes.run * heads * products,
        other=lambda number: recurrent_gated_delta_step(arguments, states[number].clone()),
        other_name="token by token",
    )


def delta_recurrent(sizes: Sizes) -> Op:
    """One token: the state is read and written."""
    arguments, states = _delta_arguments(sizes, 1)
    own = [state.clone() for state in states]
    step, plain = _ops().recurrent_gated_delta_step, PLAIN.recurrent_gated_delta_step
    return Op(
        name="gated delta, 1 row",
        run=lambda number: step(arguments, own[number]),
        copies=len(states),
        least_bytes=2 * states[0].nbytes,
        other=lambda number: plain(arguments, states[number]),
        other_name="plain torch",
    )


def conv(sizes: Sizes, dtype: torch.dtype) -> Op:
    """A run's columns in, convolved and opened ones in float32 out."""
    width = sizes.shape.delta_columns
    rows = _copied(sizes, TAPS - 1 + sizes.run, width, dtype=dtype)
    weight = _random(TAPS, width)
    moved = rows[0].nbytes + 4 * sizes.run * width
    name = f"causal conv, {_rows(sizes.run)}"
    return _paired(name, "convolve", [(each, weight) for each in rows], moved)


def norm(sizes: Sizes, dtype: torch.dtype) -> Op:
    """A run's rows in and out."""
    width = sizes.shape.hidden
    inputs, scale = _copied(sizes, sizes.run, width, dtype=dtype), _random(width)
    as_inputs, norm_rows = scale.to(dtype), _ops().rms_norm
    return Op(
        name=f"rms norm, {_rows(sizes.run)}",
        run=lambda number: norm_rows(inputs[number], scale, EPSILON),
        copies=len(inputs),
        least_bytes=2 * inputs[0].nbytes,
        other=lambda number: F.rms_norm(inputs[number], (width,), as_inputs, EPSILON),
        other_name="torch's own",
    )


def rope(sizes: Sizes, dtype: torch.dtype) -> Op:
    """The queries of a run in and out; a quarter of each head turns."""
    shape = sizes.shape
    heads = _copied(sizes, sizes.run, shape.heads, shape.head_dim, dtype=dtype)
    angles = _random(sizes.run, shape.head_dim // 8)
    turns = angles.cos().to(dtype), angles.sin().to(dtype)
    arguments = [(each, *turns) for each in heads]
    return _paired(f"rope, {_rows(sizes.run)}", "rotate", arguments, 2 * heads[0].nbytes)


def prefill_attention(sizes: Sizes, dtype: torch.dtype) -> Op:
    """A run behind three others: every query sees what stands before it."""
    shape, run, keys = sizes.shape, sizes.run, 4 * sizes.run
    op = _attention(sizes, dtype, f"attention, {_rows(run)} behind {keys - run:,}", run, keys)
    seen = run * (keys - run) + run * (run + 1) // 2
    operations = 4 * seen * shape.heads * shape.head_dim
    return replace(op, least_bytes=0, operations=operations)


def decode_attention(sizes: Sizes, dtype: torch.dtype) -> Op:
    """One token over the whole context: its keys and values are read."""
    keys = sizes.context
    return _attention(sizes, dtype, f"attention, 1 row behind {keys - 1:,}", 1, keys)


def picture_attention(sizes: Sizes, dtype: torch.dtype, count: int) -> Op:
    """All patches of a picture to all, in one layer of the tower."""
    shape = sizes.shape
    head_dim = shape.vision_hidden // shape.vision_heads
    # Queries, keys and values as the tower's projection gives them, side by side.
    every = _copied(sizes, count, 3, shape.vision_heads, head_dim, dtype=dtype)
    arguments = [(*each.unbind(1), head_dim**-0.5) for each in every]
    op = _paired(f"attention of {count:,} patches", "full_attention", arguments, 0)
    return replace(op, operations=4 * count**2 * shape.vision_hidden, dtype=dtype)


def _attention(sizes: Sizes, dtype: torch.dtype, name: str, rows: int, keys: int) -> Op:
    shape = sizes.shape
    queries = _random(rows, shape.heads, shape.head_dim, dtype=dtype)
    both = _copied(sizes, 2, keys, shape.kv_heads, shape.head_dim, dtype=dtype)
    arguments = [(queries, each[0], each[1], shape.head_dim**-0.5) for each in both]
    return replace(_paired(name, "causal_attention", arguments, both[0].nbytes), dtype=dtype)


def _paired(name: str, op: str, arguments: Sequence[tuple[Any, ...]], least_bytes: int) -> Op:
    """An operation of the processor's backend beside plain torch's, on the same arguments."""
    own, plain = getattr(_ops(), op), getattr(PLAIN, op)
    return Op(
        name,
        run=lambda number: own(*arguments[number]),
        copies=len(arguments),
        least_bytes=least_bytes,
        other=lambda number: plain(*arguments[number]),
        other_name="plain torch",
    )


def _delta_arguments(sizes: Sizes, rows: int) -> tuple[DeltaInputs, list[Tensor]]:
    """Inputs of so many tokens; and states to go on from."""
    heads, width = sizes.shape.value_heads, sizes.shape.linear_dim
    queries, keys = _random(2, rows, sizes.shape.linear_heads, width)
    values = _random(rows, heads, width)
    decay, beta = -_random(rows, heads).abs(), _random(rows, heads).sigmoid()
    return DeltaInputs(queries, keys, values, decay, beta), _copied(sizes, heads, width, width)


def _copied(sizes: Sizes, *shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Tensors of the same numbers, one beside the other until the caches are full."""
    first = _random(*shape, dtype=dtype)
    return [first] + [first.clone() for _ in range(_copies(first.nbytes, sizes) - 1)]


def _copies(num_bytes: int, sizes: Sizes) -> int:
    return max(1, sizes.apart // num_bytes)


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.randn(shape, generator=generator).to(dtype)


@cache
def _backend(name: BackendName, precision: str) -> Backend:
    """As the app chooses it, with the size of torch's slices measured as it does."""
    dtype, integers = FLOATS.get(precision, torch.bfloat16), INTEGERS.get(precision)
    rows = best_rows(dtype, integers) if can_pack(dtype) else DEFAULT_ROWS
    return backend(name, dtype, rows, integers, compiled())


def _ops() -> Any:
    """Of a model in bfloat16."""
    return _backend("cpu", "bfloat16").ops


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
