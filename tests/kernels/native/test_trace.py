"""Steps that are captured: replayed they do what they did, for other numbers and other tokens."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from core.api.errors import RequestCancelled
from kernels.common.shapes import DeltaInputs
from kernels.common.trace import NotCapturableError, Tracer
from kernels.linear.native import NativeBfloatFormat, NativeInt4Format, NativeInt8Format
from kernels.linear.reference import Matrix
from kernels.native.library import CallTrace, Library, capture_step
from kernels.native_ops import native_ops
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.sweeps import thinned

pytestmark = NEEDS_COMPILER
# Matrices so large that threads share them out.
HEADS, DIM, LIMIT = 8, 64, 700
WIDTH = HEADS * DIM
Store = Callable[[Tensor, Tensor], None]


def go_on() -> None:
    """Nobody cancels."""


def matrices(library: Library) -> list[Matrix]:
    draw = torch.Generator().manual_seed(0)
    weight = torch.randn(3 * WIDTH, WIDTH, generator=draw).bfloat16() / 8
    formats = (NativeBfloatFormat(library), NativeInt8Format(library), NativeInt4Format(library))
    return [
        weight_format.prepack(weight_format.quantise(weight), None) for weight_format in formats
    ]


class Layers:
    """Products, norms, gates, sums, and attention over rows that grow: a layer for each format. At
    the end a recurrence, whose state is moved on in place."""

    def __init__(self, window: int | None = None) -> None:
        self.ops: Any = native_ops(library())
        self.window = window
        self.matrices = matrices(library())
        self.scale = torch.ones(WIDTH)
        self.conv, self.tail = torch.ones(4, WIDTH), torch.zeros(3, WIDTH).bfloat16()
        self.gates = (-torch.ones(HEADS), torch.ones(HEADS))
        self.state = torch.zeros(HEADS, DIM, DIM)
        self.rows = torch.zeros(len(self.matrices), 2, LIMIT, HEADS, DIM, dtype=torch.bfloat16)
        self.hidden = torch.zeros(1, WIDTH, dtype=torch.bfloat16)

    def step(self, token: int, store: Store, part: Callable[[], None]) -> Tensor:
        hidden, ops = self.hidden, self.ops
        for matrix, (all_keys, all_values) in zip(self.matrices, self.rows, strict=True):
            joined = matrix.step(ops.rms_norm(hidden, self.scale, 1e-6)).split(WIDTH, dim=1)
            queries, keys, values = (each.unflatten(1, (HEADS, DIM)) for each in joined)
            store(keys, all_keys)
            store(values, all_values)
            seen = all_keys[: token + 1], all_values[: token + 1]
            attended = ops.causal_attention(queries, *seen, 0.2, self.window)
            hidden = ops.add(hidden, ops.open_gate(attended, values).flatten(1))
            part()
        found: Tensor = ops.swiglu(hidden, self._recurrence(hidden))
        return found

    def _recurrence(self, hidden: Tensor) -> Tensor:
        ops = self.ops
        heads = ops.causal_conv_step(hidden, self.tail, self.conv).view(1, HEADS, DIM)
        steps, betas, _ = hidden.split([HEADS, HEADS, WIDTH - 2 * HEADS], dim=1)
        gates = ops.delta_gates(steps, betas, *self.gates)
        read = ops.recurrent_gated_delta_step(DeltaInputs(heads, heads, heads, *gates), self.state)
        gate = hidden.view(1, HEADS, DIM)
        opened = ops.gated_rms_norm(read, self.scale[:DIM], gate, 1e-6, hidden.dtype)
        found: Tensor = opened.flatten(1)
        return found

    def once(self, token: int, hidden: Tensor) -> Tensor:
        """The result by calls of its own."""

        def store(row: Tensor, rows: Tensor) -> None:
            rows[token] = row[0]

        self.hidden.copy_(hidden)
        return self.step(token, store, lambda: None)

    def captured(self, token: int, hidden: Tensor) -> tuple[CallTrace, Tensor]:
        """The trace, and where results lie."""

        def step(tracer: Tracer) -> Tensor:
            return self.step(token, tracer.store, tracer.part)

        self.hidden.copy_(hidden)
        return capture_step(library(), token, step)


def inputs(count: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randn(1, WIDTH, generator=draw).bfloat16() for _ in range(count)]


@pytest.mark.parametrize(
    ("window", "threads"),
    thinned(itertools.product([None, 5, 300], [1, 3]), {(None, 1), (300, 3)}),
)
def test_it_gives_the_bits_of_calls_one_by_one(window: int | None, threads: int) -> None:
    """Past a split of attention, and before and past what a window hides."""
    torch.set_num_threads(threads)
    plain, replayed = Layers(window), Layers(window)
    given = inputs(600)
    expected = [plain.once(token, each).clone() for token, each in enumerate(given)]
    trace, result = replayed.captured(0, given[0])
    found = [result.clone()]
    for token, each in enumerate(given[1:], start=1):
        replayed.hidden.copy_(each)
        trace.replay(token, go_on)
        found.append(result.clone())
    torch.set_num_threads(1)
    assert all(map(torch.equal, found, expected))
    assert torch.equal(replayed.rows, plain.rows)


def test_it_may_be_recorded_at_any_token_and_played_at_any_other() -> None:
    plain, replayed = Layers(), Layers()
    plain.rows.copy_(torch.randn(plain.rows.shape, generator=torch.Generator().manual_seed(2)))
    replayed.rows.copy_(plain.rows)
    first, second = inputs(2)
    trace, result = replayed.captured(400, first)
    assert torch.equal(result, plain.once(400, first))
    for token in (0, 1, 17, 400, LIMIT - 1):
        replayed.hidden.copy_(second)
        trace.replay(token, go_on)
        assert torch.equal(result, plain.once(token, second)), token
    assert torch.equal(replayed.rows, plain.rows)


def test_nothing_that_it_needs_is_freed() -> None:
    """Calls know addresses; what lay there must not become somebody else's."""
    layers = Layers()
    given = inputs(3)
    trace, result = layers.captured(0, given[0])
    gc.collect()
    others = [torch.full((1, 3 * WIDTH), 7.0).bfloat16() for _ in range(200)]
    layers.hidden.copy_(given[1])
    trace.replay(1, go_on)
    plain = Layers()
    plain.once(0, given[0])
    assert torch.equal(result, plain.once(1, given[1]))
    assert all(bool((each == 7).all()) for each in others)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(
    "compute",
    [
        lambda rows: rows + 1,
        lambda rows: rows.copy_(rows),
        lambda rows: rows.expand(2, -1).contiguous(),
        lambda rows: rows.unflatten(1, (2, -1)).transpose(1, 2).flatten(1),
        lambda rows: rows.unflatten(1, (2, -1)).transpose(1, 2).reshape(1, -1),
        lambda rows: rows.to(torch.float32),
        lambda rows: rows.sum().item(),
        lambda rows: torch.zeros(3),
        lambda rows: native_ops(library()).rms_norm(rows.half(), torch.ones(WIDTH), 1e-6),
    ],
)
def test_what_is_not_a_call_ends_a_recording(
    compute: Callable[[Tensor], object], inference: bool
) -> None:
    """It would be done once and never again. Afterwards calls are no longer noted.

    In inference mode torch hands on whole functions that copy if they must, like `reshape`.
    """
    (row,) = inputs(1)

    def step(tracer: Tracer) -> Tensor:
        native_ops(library()).add(row, row)
        compute(row)
        return row

    with torch.inference_mode(inference), pytest.raises(NotCapturableError, match="aten"):
        capture_step(library(), 0, step)
    assert library().noted is None and library().stored is None


@pytest.mark.parametrize("inference", [False, True])
def test_what_changes_nothing_is_recorded(inference: bool) -> None:
    """Functions that may copy, of tensors that lie as they like."""
    (row,) = inputs(1)

    def step(tracer: Tracer) -> Tensor:
        heads = row.unflatten(1, (2, -1)).contiguous().flatten(1).reshape(1, -1).to(row.dtype)
        return native_ops(library()).add(heads, heads)

    with torch.inference_mode(inference):
        trace, result = capture_step(library(), 0, step)
        row.copy_(inputs(2)[1])
        trace.replay(1, go_on)
    assert torch.equal(result, row + row)


def test_a_part_of_the_context_is_not_attended_to() -> None:
    """A later token's part would be another."""
    rows = torch.zeros(9, 1, DIM)
    row = torch.ones(1, 1, DIM)
    ops: Any = native_ops(library())
    for seen, stored in ((rows[2:6], rows), (rows[:3], rows), (rows[:6], rows.clone())):

        def step(tracer: Tracer, seen: Tensor = seen, stored: Tensor = stored) -> Tensor:
            tracer.store(row, stored)
            found: Tensor = ops.causal_attention(row, seen, seen, 1.0)
            return found

        with pytest.raises(NotCapturableError, match="attention"):
            capture_step(library(), 5, step)


def test_recording_does_not_load_the_compiler_of_torch() -> None:
    """Hundreds of modules and seconds, in the middle of a first reply."""
    script = """
import sys, torch
from kernels.native.library import capture_step
from kernels.native_ops import native_ops
from tests.kernels.native.here import library
row = torch.ones(1, 64).bfloat16()
capture_step(library(), 0, lambda tracer: native_ops(library()).add(row, row.view(1, 64)))
assert "torch._dynamo" not in sys.modules and "sympy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_a_row_of_another_kind_is_not_stored() -> None:
    rows = torch.zeros(4, HEADS, DIM)
    for row in (
        torch.zeros(1, DIM, HEADS).transpose(1, 2),
        torch.zeros(1, HEADS, DIM + 1),
        torch.zeros(1, HEADS, DIM).bfloat16(),
    ):

        def step(tracer: Tracer, row: Tensor = row) -> Tensor:
            tracer.store(row, rows)
            return row

        with pytest.raises(NotCapturableError, match="another kind"):
            capture_step(library(), 0, step)


def test_it_stops_between_parts_and_can_be_played_again() -> None:
    layers, plain = Layers(), Layers()
    given = inputs(2)
    trace, result = layers.captured(0, given[0])
    plain.once(0, given[0])
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise RequestCancelled("cancelled")

    layers.hidden.copy_(given[1])
    with pytest.raises(RequestCancelled):
        trace.replay(1, look)
    assert looks == 3 and not layers.rows[2, :, 1].any() and bool(layers.rows[1, :, 1].any())
    trace.replay(1, go_on)
    assert torch.equal(result, plain.once(1, given[1]))


def test_a_kernel_without_memory_ends_it() -> None:
    """An array of calls of which the first finds none."""
    trace, _ = Layers().captured(0, inputs(1)[0])
    with (
        mock.patch.object(library(), "replay", lambda calls, first, end: first),
        pytest.raises(MemoryError),
    ):
        trace.replay(1, go_on)
