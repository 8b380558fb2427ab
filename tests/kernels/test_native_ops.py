"""Every compiled operation held to plain torch, on odd sizes, and to memory that is its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.common.shapes import (
    AttentionShape,
    Clamp,
    DeltaInputs,
    DeltaShape,
    ExpertShape,
    FullAttentionShape,
    GateShape,
    GroupNormShape,
    Mamba1Shape,
    Mamba2Shape,
    NormShape,
    OpenGateShape,
    OpShape,
    RotationShape,
    Routing,
    ShortConvShape,
    SquaredReluShape,
    SumShape,
)
from kernels.dispatch import REFERENCE, Backend
from kernels.native_ops import native_ops
from kernels.ops import PLAIN_OPS, Ops
from kernels.self_test.validation import cases, validated
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.kernels.poison import poisoned_memory

pytestmark = NEEDS_COMPILER
CPU = torch.device("cpu")
PLAIN: Any = PLAIN_OPS  # a type checker would take functions that a class holds for its methods
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
SHAPES: list[OpShape] = [
    *(NormShape(width, gated) for width in (1, 7, 16, 33, 128) for gated in (False, True)),
    *(GateShape(width, gelu) for width in (1, 15, 64, 100) for gelu in (False, True)),
    *(GateShape(width, clamp=Clamp(1.702, 7.0)) for width in (1, 15, 100)),
    *(OpenGateShape(heads, dim) for heads, dim in ((1, 1), (3, 17), (2, 256))),
    *(SumShape(width) for width in (1, 15, 64)),
    *(SquaredReluShape(width) for width in (1, 15, 64)),
    *(RotationShape(3, dim, turned) for dim, turned in ((2, 2), (10, 6), (33, 32), (64, 16))),
    AttentionShape(1, 1, 1),
    AttentionShape(4, 2, 17),
    AttentionShape(32, 1, 48),
    AttentionShape(14, 2, 80),
    AttentionShape(3, 1, 256),
    AttentionShape(8, 2, 256, window=300),
    AttentionShape(6, 6, 40, window=3, sinks=True),
    FullAttentionShape(1, 1),
    FullAttentionShape(3, 72),
    FullAttentionShape(2, 64),
    DeltaShape(1, 1, 1, 1, 2),
    DeltaShape(1, 8, 2, 6, 4),
    DeltaShape(2, 33, 6, 130, 2),
    DeltaShape(4, 128, 4, 128, 4),
    DeltaShape(2, 96, 2, 192, 4),
    DeltaShape(1, 20, 3, 300, 7),
    *(DeltaShape(heads, dim, heads, 16, 4, by_channel=True) for heads, dim in ((1, 1), (3, 33))),
    DeltaShape(2, 128, 4, 128, 4, by_channel=True),
    NormShape(33, passed=5),
    NormShape(33, gated=True, sigmoid=True),
    AttentionShape(32, 1, 576),
    Mamba1Shape(16, 1, 2),
    Mamba1Shape(48, 5, 4),
    Mamba1Shape(160, 16, 4),
    Mamba1Shape(272, 64, 3),
    Mamba2Shape(4, 6, 2, 16, 4),
    Mamba2Shape(3, 33, 1, 144, 4),
    Mamba2Shape(24, 64, 1, 128, 4),
    Mamba2Shape(2, 256, 2, 256, 3),
    *(ShortConvShape(channels, taps) for channels, taps in ((1, 2), (7, 3), (64, 3), (130, 5))),
    *(GroupNormShape(groups, width) for groups, width in ((1, 1), (2, 130), (3, 64))),
    ExpertShape(1, 1, 1, Routing(1), shared=False),
    ExpertShape(33, 15, 7, Routing(7, normalise=False), shared=True),
    ExpertShape(128, 64, 200, Routing(8), shared=True),
    ExpertShape(600, 96, 70, Routing(64, normalise=False), shared=False),
    ExpertShape(48, 24, 12, Routing(4), shared=False, gelu=True, factors=True),
    ExpertShape(48, 24, 12, Routing(4), shared=False, clamp=Clamp(1.702, 7.0), bias=True),
    ExpertShape(40, 15, 9, Routing(3, sigmoid=True, scale=2.5), shared=False, gated=False),
    ExpertShape(
        33,
        8,
        24,
        Routing(5, False, sigmoid=True, groups=6, open_groups=3),
        shared=False,
        gated=False,
    ),
]


def ops() -> Any:
    return native_ops(library())


@TYPES
@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_it_is_right_and_repeats_itself(
    shape: OpShape, dtype: torch.dtype, caplog: pytest.LogCaptureFixture
) -> None:
    with poisoned_memory():
        backend = Backend("compiled", REFERENCE.formats, ops())
        assert validated(backend, [shape], CPU, dtype) is backend
    assert not caplog.records


def test_every_compiled_operation_is_tried() -> None:
    """One that no case calls would never be compared with anything."""
    called = {case.op for case in cases(SHAPES, CPU, torch.float32)}
    compiled = {
        name for name in Ops.__slots__ if getattr(ops(), name) is not getattr(PLAIN_OPS, name)
    }
    assert compiled and compiled <= called


@TYPES
def test_long_runs_are_right(dtype: torch.dtype) -> None:
    """More rows than one part takes, and more than any number of threads divides evenly."""
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(1003, 3 * 40, generator=draw).to(dtype)
    weight = torch.randn(4, 120, generator=draw)
    angles = torch.randn(1003, 8, generator=draw)
    turn = (angles.cos().to(dtype), angles.sin().to(dtype))
    calls: list[tuple[str, tuple[object, ...]]] = [
        ("convolve", (rows, weight)),
        ("rms_norm", (rows, torch.ones(120), 1e-6)),
        ("rotate", (rows.view(1003, 3, 40), *turn)),
        ("swiglu", (rows[:, :60], rows[:, 60:])),
        ("geglu", (rows[:, :60], rows[:, 60:])),
        ("geglu", (rows[:, :60], rows[:, 60:].contiguous())),
        ("clamped_swiglu", (rows[:, :60], rows[:, 60:], 1.702, 1.0)),
        ("open_gate", (rows.view(1003, 3, 40), rows.view(1003, 3, 40))),
        ("add", (rows, rows)),
    ]
    for name, inputs in calls:
        found, expected = (getattr(each, name)(*inputs) for each in (ops(), PLAIN))
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("sink", [None, -1e30, 0.5, 80.0])
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(8, 2, 32), (7, 1, 80), (12, 4, 20)])
def test_attention_over_many_splits_is_right(
    heads: int, kv_heads: int, dim: int, sink: float | None
) -> None:
    """In a slab of which only the first rows are filled: others must not be used.

    Compared with float64: the float32 reference errs by twice what the kernel does.
    """
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(1, heads, dim, generator=draw)
    rows = torch.randn(2, 5000, kv_heads, dim, generator=draw)
    sinks = None if sink is None else sink + torch.randn(heads, generator=draw)
    slab = torch.full((2, 5200, kv_heads, dim), float("nan"))
    for length in (2, 31, 127, 128, 129, 257, 511, 4999, 5000):
        slab[:, :length] = rows[:, :length]
        found = ops().causal_attention(query, *slab[:, :length], 0.3, None, sinks)
        keys, values = rows[:, :length]
        expected = exact_attention(query, keys, values, 0.3, sinks)
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=5e-7)


def exact_attention(
    query: Tensor, keys: Tensor, values: Tensor, scale: float, sinks: Tensor | None
) -> Tensor:
    """The equation in float64, for one token that sees all keys."""
    copies = query.shape[1] // keys.shape[1]
    keys, values = (each.double().repeat_interleave(copies, 1) for each in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", query.double(), keys) * scale
    if sinks is not None:
        scores = torch.cat((scores, sinks.double().view(-1, 1, 1)), 2)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1)[..., : len(keys)], values)


@pytest.mark.parametrize("key", [0, 5, 127, 130, 299])
def test_a_key_that_is_not_a_number_shows_in_all_heads_that_share_it(key: int) -> None:
    for place in (3, 35):
        keys, values, query = torch.ones(300, 2, 36), torch.ones(300, 2, 36), torch.ones(1, 6, 36)
        keys[key, 1, place] = float("nan")
        found = ops().causal_attention(query, keys, values, 0.1)
        assert bool(found[:, 3:].isnan().all()) and bool((found[:, :3] == 1).all())


@pytest.mark.parametrize(
    "name",
    [
        "rms_norm",
        "swiglu",
        "geglu",
        "gelu",
        "clamped",
        "relu",
        "open_gate",
        "add",
        "attention",
        "gates",
        "convolution",
    ],
)
def test_what_is_not_a_number_stays_so(name: str) -> None:
    """A broken weight must show, not turn into some number."""
    nan = float("nan")
    row = torch.tensor([[1.0, nan, 2.0, 0.5]])
    heads = row.view(1, 1, 4)
    results: dict[str, list[Tensor]] = {
        "rms_norm": [ops().rms_norm(row, torch.ones(4), 1e-6)],
        "swiglu": [
            ops().swiglu(row, torch.ones(1, 4))[:, 1],
            ops().swiglu(torch.ones(1, 4), row)[:, 1],
        ],
        "geglu": [ops().geglu(row, torch.ones(1, 4))[:, 1]],
        "gelu": [ops().gelu(row)[:, 1]],
        "clamped": [
            ops().clamped_swiglu(row, torch.ones(1, 4), 1.7, 0.5)[:, 1],
            ops().clamped_swiglu(torch.ones(1, 4), row, 1.7, 0.5)[:, 1],
        ],
        "relu": [ops().squared_relu(row)[:, 1]],
        "open_gate": [ops().open_gate(torch.ones(1, 1, 4), heads)[..., 1]],
        "add": [ops().add(row, torch.ones(1, 4))[:, 1]],
        "attention": [ops().causal_attention(heads, torch.ones(3, 1, 4), torch.ones(3, 1, 4), 1.0)],
        "gates": [
            each[:, 1] for each in ops().delta_gates(row, row, -torch.ones(4), torch.ones(4))
        ],
        "convolution": [ops().convolve(row, torch.ones(1, 4))[:, 1]],
    }
    assert all(bool(each.isnan().all()) for each in results[name])


def test_a_split_that_nobody_attends_to_adds_nothing() -> None:
    """All of its scores are beyond what a number can be, downwards."""
    keys = torch.zeros(257, 1, 16)
    keys[256:] = -3e38
    query, values = torch.full((1, 1, 16), 3e38), torch.ones(257, 1, 16)
    assert torch.equal(ops().causal_attention(query, keys, values, 1.0), torch.ones(1, 1, 16))


@pytest.mark.parametrize("huge", [100.0, 3e4, 1e38])
def test_large_numbers_overflow_nowhere(huge: float) -> None:
    row = torch.tensor([[-huge, huge, -1.0, 1.0]])
    for name in ("swiglu", "geglu"):
        found = getattr(ops(), name)(row, torch.ones(1, 4))
        torch.testing.assert_close(found, getattr(PLAIN, name)(row, torch.ones(1, 4)))
    for found, expected in zip(
        ops().delta_gates(row, row, -torch.ones(4), torch.ones(4)),
        PLAIN.delta_gates(row, row, -torch.ones(4), torch.ones(4)),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)
    keys = torch.tensor([[[80.0]], [[-80.0]], [[79.0]]])
    found = ops().causal_attention(torch.full((1, 1, 1), 10.0), keys, keys, 1.0)
    torch.testing.assert_close(found, torch.full((1, 1, 1), 80.0))


def test_a_state_that_is_forgotten_ends_at_zero() -> None:
    """Numbers below 1e-38 would make each later step ten times slower."""
    state = torch.full((1, 4, 4), 1e-30)
    zeros = torch.zeros(1, 1, 4)
    for _ in range(3):
        decay = torch.full((1, 1), -20.0)
        given = DeltaInputs(zeros, zeros, zeros, decay, torch.zeros(1, 1))
        ops().recurrent_gated_delta_step(given, state)
    assert bool((state == 0).all())


def test_what_no_kernel_takes_goes_through_torch() -> None:
    """Another type, a transposed view, more queries than one."""
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(5, 8, generator=draw)
    halves = rows.half()
    assert torch.equal(
        ops().rms_norm(halves, torch.ones(8), 1e-6), PLAIN.rms_norm(halves, torch.ones(8), 1e-6)
    )
    assert torch.equal(ops().swiglu(rows.T, rows.T), PLAIN.swiglu(rows.T, rows.T))
    heads = rows.view(5, 2, 4)
    assert torch.equal(
        ops().causal_attention(heads, heads, heads, 1.0),
        PLAIN.causal_attention(heads, heads, heads, 1.0),
    )
