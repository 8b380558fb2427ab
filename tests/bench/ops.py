"""The operations of a model at its sizes, on a processor or a GPU, beside plain torch.

Repeated reads and writes of a byte count once. Arguments alternate through more memory than caches
hold, as a model's weights do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.common.shapes import DeltaInputs
from kernels.dispatch import DEFAULT_ROWS, Backend, BackendName, backend
from kernels.gated_delta.reference import CHUNK
from kernels.linear.cpu import can_pack
from kernels.linear.probe import best_rows
from kernels.linear.reference import Integers, Matrix, WeightFormat
from kernels.native.library import compiled
from kernels.ops import PLAIN_OPS
from tests.bench.folders import RELEASED, TINY, Shape
from tests.bench.gpu import fla

Call = Callable[[int], object]
"""One call of an op on the arguments of this number."""
Arguments = Sequence[tuple[Any, ...]]
PLAIN, FLA = "plain torch", "flash-linear-attention"
EPSILON = 1e-6
TAPS = 4
FLOATS = {"bfloat16": torch.bfloat16, "float32": torch.float32}
INTEGERS: dict[str, Integers] = {name: name for name in get_args(Integers)}
# Plain torch takes some forty launches for each chunk of 64: longer runs say nothing new of it.
LONGEST_PLAIN = 2_048


@dataclass(frozen=True)
class Sizes:
    """Sizes of the ops' arguments: tokens of runs and contexts, patches, bytes; and rounds.

    Arguments alternate through `apart` bytes, or through `copies` of them. A round makes calls for
    `seconds`, `calls` at most.
    """

    shape: Shape = RELEASED["0.8B"]
    run: int = 512
    delta_runs: tuple[int, ...] = (512,)
    contexts: tuple[int, ...] = (8_192,)
    few_rows: tuple[int, ...] = (1,)
    patches: tuple[int, ...] = (1_024, 4_096)
    apart: int = 256 * 2**20
    copies: int = 100_000
    rounds: int = 5
    seconds: float = 0.02
    calls: int = 100_000


def gpu_sizes(shape: Shape) -> Sizes:
    return Sizes(
        shape, delta_runs=(512, 2_048, 8_192, 32_768), contexts=(512, 8_192, 32_768),
        few_rows=(1, 16), patches=(), copies=64, calls=200,
    )  # fmt: skip


QUICK = Sizes(
    TINY, run=20, delta_runs=(20, 70), contexts=(5, 40), few_rows=(1, 3), patches=(16,),
    apart=2**10, copies=2, rounds=2, seconds=0.0, calls=1,
)  # fmt: skip


@dataclass(frozen=True)
class Op:
    """An op, the least bytes it moves and operations it computes, and other implementations.

    The first tensor of a result is compared with the others'. A text in `others` says why there is
    none.
    """

    name: str
    run: Call
    copies: int
    least_bytes: int
    operations: int = 0
    dtype: torch.dtype = torch.bfloat16
    others: Mapping[str, Call | str] = field(default_factory=dict)


class Numbers:
    """Makes random arguments on one device, for the ops of one backend."""

    def __init__(self, sizes: Sizes, device: torch.device, kernels: Literal["cpu", "gpu"]) -> None:
        self.sizes, self.device, self.on_gpu = sizes, device, kernels == "gpu"
        self.ops: Any = chosen(kernels, "bfloat16").ops
        self._generator = torch.Generator(device).manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        found = torch.randn(shape, generator=self._generator, device=self.device)
        return found.to(dtype)

    def copies_of(self, num_bytes: int) -> int:
        return max(1, min(self.sizes.copies, self.sizes.apart // num_bytes))

    def apart(self, *shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Equal tensors that take turns."""
        return copied(self.normal(*shape, dtype=dtype), self.copies_of(4 * math.prod(shape)))

    def paired(
        self,
        name: str,
        op: str,
        arguments: Arguments,
        least_bytes: int,
        plain_arguments: Arguments | None = None,
        **more: Any,
    ) -> Op:
        """The backend's op beside plain torch's, on equal arguments."""
        own, plain = getattr(self.ops, op), getattr(PLAIN_OPS, op)
        others = arguments if plain_arguments is None else plain_arguments
        return Op(
            name,
            run=lambda number: own(*arguments[number]),
            copies=len(arguments),
            least_bytes=least_bytes,
            others={PLAIN: lambda number: plain(*others[number])},
            **more,
        )


@cache
def chosen(name: BackendName, precision: str) -> Backend:
    """A backend as the app chooses it, with the size of torch's slices measured."""
    dtype, integers = FLOATS.get(precision, torch.bfloat16), INTEGERS.get(precision)
    if name == "gpu":
        return backend("gpu", dtype, integers=integers)
    rows = best_rows(dtype, integers) if can_pack(dtype) else DEFAULT_ROWS
    return backend(name, dtype, rows, integers, compiled())


def copied(tensor: Tensor, count: int) -> list[Tensor]:
    return [tensor, *(tensor.clone() for _ in range(count - 1))]


def rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def all_ops(numbers: Numbers, precision: str) -> Iterator[Op]:
    """Yields ops; arguments are made when asked for.

    A precision of integers has the matrices alone: the rest is as in bfloat16.
    """
    yield from matrices(numbers, precision)
    if precision not in FLOATS:
        return
    dtype = FLOATS[precision]
    yield from delta_rules(numbers)
    for count in (1, numbers.sizes.run):
        yield from norms(numbers, dtype, count)
        yield from rotations(numbers, dtype, count)
    yield from convolutions(numbers, dtype)
    yield from attentions(numbers, dtype)


# ------------------------------------------------------------------ matrices


def matrices(numbers: Numbers, precision: str) -> Iterator[Op]:
    """A few rows and a run times the largest matrices of a block."""
    shape, dtype = numbers.sizes.shape, FLOATS.get(precision, torch.bfloat16)
    usual = chosen("gpu" if numbers.on_gpu else "cpu", precision).formats.usual
    for name, inputs, outputs in (
        ("gate and up", shape.hidden, 2 * shape.mlp),
        ("down", shape.mlp, shape.hidden),
    ):
        weight = numbers.normal(outputs, inputs, dtype=dtype) / math.sqrt(inputs)
        held = _held(usual, weight, numbers)
        for count in (*numbers.sizes.few_rows, numbers.sizes.run):
            given = numbers.normal(count, inputs, dtype=dtype)
            moved = held[0].num_bytes + given.nbytes + given.itemsize * count * outputs
            yield _product(
                f"{name}, {rows(count)}", held, given, moved, 2 * count * weight.numel(),
                _torchs(numbers, precision, held, weight, given),
            )  # fmt: skip


def _product(
    name: str, held: list[Matrix], given: Tensor, moved: int, operations: int, torchs: Call | None
) -> Op:
    return Op(
        name,
        run=lambda number: held[number](given),
        copies=len(held),
        least_bytes=moved,
        operations=operations,
        dtype=given.dtype,
        others={} if torchs is None else {PLAIN: torchs},
    )


def _held(weight_format: WeightFormat, weight: Tensor, numbers: Numbers) -> list[Matrix]:
    """The same weight so often that caches can't hold it."""
    kept = weight_format.quantise(weight)

    def pack() -> Matrix:
        return weight_format.prepack(tuple(each.clone() for each in kept), None)

    first = pack()
    return [first, *(pack() for _ in range(numbers.copies_of(first.num_bytes) - 1))]


def _torchs(
    numbers: Numbers, precision: str, held: list[Matrix], weight: Tensor, given: Tensor
) -> Call | None:
    """Torch's best product of the same numbers; None if the matrix is torch's own."""
    if not numbers.on_gpu:
        others = _held(chosen("torch", precision).formats.usual, weight, numbers)
        return lambda number: others[number % len(others)](given)
    if precision in FLOATS:
        return None
    # Times ones on a diagonal, a matrix says what it holds.
    floats = held[0](torch.eye(weight.shape[1], dtype=weight.dtype, device=weight.device))
    plain = copied(floats.T.contiguous(), len(held))
    return lambda number: F.linear(given, plain[number])


# ------------------------------------------------------------------ the gated delta rule


def delta_rules(numbers: Numbers) -> Iterator[Op]:
    """One token, then runs that go on from a state."""
    yield _delta(numbers, 1, "gated delta, a step", "recurrent_gated_delta_step", fla.RECURRENT)
    for count in numbers.sizes.delta_runs:
        yield _delta(
            numbers, count, f"gated delta, {rows(count)}", "chunked_gated_delta_", fla.CHUNKED
        )


def _delta(numbers: Numbers, count: int, name: str, op: str, theirs: str) -> Op:
    shape = numbers.sizes.shape
    heads, width = shape.value_heads, shape.linear_dim
    columns = numbers.normal(count, shape.delta_columns)
    # Rates of a trained model: forgetting at once would hide mistakes further back.
    decay = -0.1 * numbers.normal(count, heads).sigmoid()
    gates = decay, numbers.normal(count, heads).sigmoid()
    state = numbers.normal(heads, width, width)
    least = columns.nbytes + 2 * decay.nbytes + 4 * count * heads * width + 2 * state.nbytes
    copies = numbers.copies_of(least)
    every = [
        DeltaInputs._make((*_by_head(shape, each), *gates)) for each in copied(columns, copies)
    ]
    own, plain = getattr(numbers.ops, op), getattr(PLAIN_OPS, op)

    def on(rule: Callable[[DeltaInputs, Tensor], Tensor]) -> Call:
        states = copied(state.clone(), copies)
        return lambda number: rule(every[number], states[number])

    others: dict[str, Call | str] = {PLAIN: on(plain)} if count <= LONGEST_PLAIN else {}
    if numbers.on_gpu:
        others[FLA] = _fla(every, copied(state.clone(), copies), theirs)
    # Per token: K K^T, Q K^T, the inverse times errors, attention times delta; and K S, Q S, S + ..
    products = 2 * count * heads * (4 * CHUNK * width + 3 * width * width)
    return Op(
        name,
        run=on(own),
        copies=copies,
        least_bytes=least,
        operations=products if count > 1 else 0,
        dtype=torch.bfloat16 if numbers.on_gpu else torch.float32,
        others=others,
    )


def _fla(every: Sequence[DeltaInputs], states: list[Tensor], name: str) -> Call | str:
    """flash-linear-attention's rule of this name, or why there is none."""
    found: Any = fla.rule(name)
    if isinstance(found, str):
        return found
    given = [fla.inputs(arguments) for arguments in every]
    return lambda number: fla.call(found, given[number], states[number])


def _by_head(shape: Shape, columns: Tensor) -> Iterator[Tensor]:
    """Queries, keys and values as the layer splits a row: with gaps between tokens."""
    heads = shape.linear_heads, shape.linear_heads, shape.value_heads
    parts = columns.split([each * shape.linear_dim for each in heads], dim=1)
    for part, each in zip(parts, heads, strict=True):
        yield part.unflatten(1, (each, shape.linear_dim))


# ------------------------------------------------------------------ rows


def norms(numbers: Numbers, dtype: torch.dtype, count: int) -> Iterator[Op]:
    shape = numbers.sizes.shape
    width, heads, dim = shape.hidden, shape.value_heads, shape.linear_dim
    scale, inputs = numbers.normal(width), numbers.apart(count, width, dtype=dtype)
    rough, own = scale.to(dtype), numbers.ops.rms_norm
    yield Op(
        f"rms norm, {rows(count)}",
        run=lambda number: own(inputs[number], scale, EPSILON),
        copies=len(inputs),
        least_bytes=2 * inputs[0].nbytes + scale.nbytes,
        others={PLAIN: lambda number: F.rms_norm(inputs[number], (width,), rough, EPSILON)},
    )
    both = numbers.apart(2, count, width, dtype=dtype)
    yield numbers.paired(
        f"rms norm of a sum, {rows(count)}", "add_rms_norm",
        [(*each, scale, EPSILON) for each in both], 2 * both[0].nbytes + scale.nbytes,
    )  # fmt: skip
    read, narrow = numbers.apart(count, heads, dim), numbers.normal(dim)
    gates = copied(numbers.normal(count, heads, dim, dtype=dtype), len(read))
    pairs = zip(read, gates, strict=True)
    yield numbers.paired(
        f"gated norm, {rows(count)}", "gated_rms_norm",
        [(each, narrow, gate, EPSILON, dtype) for each, gate in pairs],
        read[0].nbytes + 2 * gates[0].nbytes,
    )  # fmt: skip


def rotations(numbers: Numbers, dtype: torch.dtype, count: int) -> Iterator[Op]:
    """Queries of which a quarter turns, alone and after a norm."""
    shape = numbers.sizes.shape
    heads = numbers.apart(count, shape.heads, shape.head_dim, dtype=dtype)
    angles, scale = 7 * numbers.normal(count, shape.head_dim // 8), numbers.normal(shape.head_dim)
    turns = angles.cos().to(dtype), angles.sin().to(dtype)
    moved = 2 * heads[0].nbytes + 2 * turns[0].nbytes
    arguments: Arguments = [(each, *turns) for each in heads]
    yield numbers.paired(f"rotate, {rows(count)}", "rotate", arguments, moved)
    arguments = [(each, scale, EPSILON, *turns) for each in heads]
    yield numbers.paired(f"norm and rotate, {rows(count)}", "norm_rotate", arguments, moved)


def convolutions(numbers: Numbers, dtype: torch.dtype) -> Iterator[Op]:
    """A step that moves its tail, and a run; convolved columns come out in float32."""
    width, run = numbers.sizes.shape.delta_columns, numbers.sizes.run
    weight, row = numbers.normal(TAPS, width), numbers.normal(1, width, dtype=dtype)
    tails = numbers.apart(TAPS - 1, width, dtype=dtype)
    yield numbers.paired(
        "causal conv, a step", "causal_conv_step", [(row, each, weight) for each in tails],
        row.nbytes + 2 * tails[0].nbytes + weight.nbytes + 4 * width,
        [(row, each.clone(), weight) for each in tails],
    )  # fmt: skip
    inputs = numbers.apart(TAPS - 1 + run, width, dtype=dtype)
    yield numbers.paired(
        f"causal conv, {rows(run)}", "convolve", [(each, weight) for each in inputs],
        inputs[0].nbytes + 4 * run * width + weight.nbytes,
    )  # fmt: skip


def attentions(numbers: Numbers, dtype: torch.dtype) -> Iterator[Op]:
    """One token over contexts, a run behind three others, and all patches of a picture."""
    shape, run = numbers.sizes.shape, numbers.sizes.run
    for context in numbers.sizes.contexts:
        yield _attention(numbers, dtype, 1, context)
    if numbers.sizes.patches:
        yield _attention(numbers, dtype, run, 4 * run)
    for count in numbers.sizes.patches:
        head_dim = shape.vision_hidden // shape.vision_heads
        # Queries, keys and values as the tower's projection gives them, side by side.
        every = numbers.apart(count, 3, shape.vision_heads, head_dim, dtype=dtype)
        yield numbers.paired(
            f"attention of {count:,} patches", "full_attention",
            [(*each.unbind(1), head_dim**-0.5) for each in every], 0,
            operations=4 * count**2 * shape.vision_hidden, dtype=dtype,
        )  # fmt: skip


def _attention(numbers: Numbers, dtype: torch.dtype, count: int, keys: int) -> Op:
    shape = numbers.sizes.shape
    queries = numbers.normal(count, shape.heads, shape.head_dim, dtype=dtype)
    both = numbers.apart(2, keys, shape.kv_heads, shape.head_dim, dtype=dtype)
    seen = count * (keys - count) + count * (count + 1) // 2
    return numbers.paired(
        f"attention, {rows(count)} behind {keys - count:,}", "causal_attention",
        [(queries, *each, shape.head_dim**-0.5, None) for each in both],
        both[0].nbytes + 2 * queries.nbytes,
        operations=4 * seen * shape.heads * shape.head_dim if count > 1 else 0, dtype=dtype,
    )  # fmt: skip
