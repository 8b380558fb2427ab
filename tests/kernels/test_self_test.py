"""A kernel that lies, raises or wavers is found before a model runs on it, and said once."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.common.shapes import (
    AttentionShape,
    Clamp,
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
from kernels.ops import PLAIN_OPS, Ops
from kernels.self_test import validation as self_test
from kernels.self_test.validation import validated

CPU = torch.device("cpu")
SHAPES: tuple[OpShape, ...] = (
    NormShape(24),
    NormShape(24, gated=True),
    NormShape(24, gated=True, sigmoid=True),
    NormShape(24, passed=8),
    GateShape(24),
    GateShape(24, gelu=True),
    GateShape(24, clamp=Clamp(1.702, 7.0)),
    OpenGateShape(3, 10),
    SumShape(24),
    SquaredReluShape(24),
    RotationShape(3, 10, 6),
    AttentionShape(4, 2, 16, window=7, sinks=True),
    FullAttentionShape(2, 16),
    DeltaShape(key_heads=1, key_dim=8, value_heads=2, value_dim=6, taps=4),
    DeltaShape(key_heads=1, key_dim=8, value_heads=2, value_dim=6, taps=4, by_channel=True),
    Mamba1Shape(channels=12, state_dim=5, taps=4),
    Mamba2Shape(heads=4, head_dim=6, groups=2, state_dim=8, taps=4),
    GroupNormShape(2, 12),
    ShortConvShape(channels=24, taps=3),
    ExpertShape(width=12, inner=6, count=5, routing=Routing(2, normalise=False), shared=True),
)
TRIED = tuple(name for name in Ops.__slots__ if name != "rows_per_part")


def honest(name: str) -> Callable[..., Any]:
    """Another function with the same results: a tensor, or some."""
    plain: Any = getattr(PLAIN_OPS, name)

    def op(*inputs: Any) -> Any:
        return plain(*inputs)

    return op


def changed(result: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A result whose last tensor is changed; of an operation that makes another, of that one."""
    if isinstance(result, Tensor):
        return change(result)
    if callable(result):
        return lambda *inputs: changed(result(*inputs), change)
    return (*result[:-1], change(result[-1]))


def with_op(name: str, op: Callable[..., Any]) -> Backend:
    """A backend of honest operations but for one."""
    others: dict[str, Any] = {each: honest(each) for each in TRIED}
    formats = replace(REFERENCE.formats, batch_invariant="always")
    return Backend("odd", formats, replace(PLAIN_OPS, **{**others, name: op}))


def assert_found(backend: Backend, name: str, caplog: pytest.LogCaptureFixture, why: str) -> None:
    found = validated(backend, SHAPES, CPU, torch.float32)
    assert getattr(found.ops, name) is getattr(PLAIN_OPS, name)
    others = [each for each in TRIED if each != name]
    assert all(getattr(found.ops, each) is getattr(backend.ops, each) for each in others)
    assert found.name == f"odd, plain {name}" and found.formats.batch_invariant == "never"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert name in record.getMessage() and why in record.getMessage()


def test_what_computes_the_same_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    backend = with_op("rotate", honest("rotate"))
    assert validated(backend, SHAPES, CPU, torch.float32) is backend
    assert not caplog.records


def wrong(name: str) -> Callable[..., Any]:
    def change(result: Tensor) -> Tensor:
        result = result.contiguous()
        result.view(-1)[-1] += 0.02 * result.abs().max()
        return result

    return lambda *inputs: changed(honest(name)(*inputs), change)


def raising(name: str) -> Callable[..., Any]:
    def op(*inputs: Any) -> Tensor:
        raise RuntimeError("out of resource: shared memory\nand much more")

    return op


def wavering(name: str) -> Callable[..., Any]:
    """Every other call is off in the last place."""
    calls = itertools.count()

    def op(*inputs: Any) -> Any:
        odd = next(calls) % 2

        def change(result: Tensor) -> Tensor:
            result = result.contiguous()
            last = result.view(-1)[-1:]
            if odd:
                last.copy_(torch.nextafter(last, torch.tensor(100.0)))
            return result

        return changed(honest(name)(*inputs), change)

    return op


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (wrong, "off by"),
        (raising, "RuntimeError: out of resource: shared memory"),
        (wavering, "different bits"),
    ],
)
def test_a_fault_of_any_operation_is_found(
    fault: Callable[[str], Callable[..., Any]],
    why: str,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert_found(with_op(name, fault(name)), name, caplog, why)
    assert "much more" not in caplog.text


@pytest.mark.parametrize(
    "name",
    ["chunked_gated_delta_", "recurrent_gated_delta_step", "causal_conv_step", "short_conv"],
)
def test_a_state_that_is_not_updated_is_found(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def forgets(inputs: Any, state: Tensor, *others: Any) -> Any:
        return honest(name)(inputs, state.clone(), *others)

    assert_found(with_op(name, forgets), name, caplog, "off by")


def test_a_window_that_hides_nothing_is_found(caplog: pytest.LogCaptureFixture) -> None:
    def sees_all(
        queries: Tensor, keys: Tensor, values: Tensor, scale: float, _: int, sinks: Tensor | None
    ) -> Tensor:
        return PLAIN_OPS.causal_attention(queries, keys, values, scale, None, sinks)

    assert_found(with_op("causal_attention", sees_all), "causal_attention", caplog, "off by")


@pytest.mark.parametrize("name", ["causal_attention", "step_attention", "run_attention"])
def test_sinks_that_are_left_out_are_found(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def without(*inputs: Any) -> Any:
        return getattr(PLAIN_OPS, name)(*inputs[:-1], None)

    assert_found(with_op(name, without), name, caplog, "off by")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_is_found(number: float, caplog: pytest.LogCaptureFixture) -> None:
    def breaks(*inputs: Any) -> Tensor:
        return PLAIN_OPS.rms_norm(*inputs).fill_(number)

    assert_found(with_op("rms_norm", breaks), "rms_norm", caplog, "off by")


def test_another_shape_or_type_is_found(caplog: pytest.LogCaptureFixture) -> None:
    def narrows(*inputs: Any) -> Tensor:
        return PLAIN_OPS.rms_norm(*inputs)[..., :-1]

    assert_found(with_op("rms_norm", narrows), "rms_norm", caplog, "float32 [")
    caplog.clear()

    def widens(*inputs: Any) -> Tensor:
        return PLAIN_OPS.rms_norm(*inputs).double()

    assert_found(with_op("rms_norm", widens), "rms_norm", caplog, "float64")


@pytest.mark.parametrize(("inner", "tried"), [(1023, 1023), (24576, 512), (24600, 536)])
def test_of_large_experts_a_few_blocks_are_tried(inner: int, tried: int) -> None:
    """Before memory is looked at: four of Jamba 1.5 Large's would be ten gigabytes."""
    found: list[tuple[int, ...]] = []

    def noting(up: Any, down: Any, activation: Any) -> Any:
        found.append((len(up), *up[0].weight.shape, *down[0].weight.shape))
        return PLAIN_OPS.experts(up, down, activation)

    shape = ExpertShape(16, inner, 16, Routing(2), shared=False)
    backend = with_op("experts", noting)
    assert validated(backend, [shape], CPU, torch.float32) is backend
    assert set(found) == {(2, 2 * tried, 16, 16, tried)}


def test_plain_torch_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: object) -> None:
        raise AssertionError("numbers were drawn for nothing")

    monkeypatch.setattr(self_test, "cases", drawn)
    assert validated(REFERENCE, SHAPES, CPU, torch.float32) is REFERENCE


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernels_of_a_gpu_pass(
    dtype: torch.dtype, device: torch.device, caplog: pytest.LogCaptureFixture
) -> None:
    gpu_ops = pytest.importorskip("kernels.gpu_ops", reason="Triton is published for Linux alone")
    backend = Backend("gpu", REFERENCE.formats, gpu_ops.GPU_OPS)
    assert validated(backend, SHAPES, device, dtype) is backend
    assert not caplog.records


class Memory:
    """A `Recall`, and how often something had to be found."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.found = 0

    def __call__(self, name: str, find: Callable[[], str]) -> str:
        if name not in self.known:
            found = find()
            self.found += 1
            self.known[name] = found
        return self.known[name]


def test_what_was_tried_before_is_not_tried_again() -> None:
    calls: list[str] = []

    def counted(*inputs: Any) -> Any:
        calls.append("rotate")
        return honest("rotate")(*inputs)

    memory, backend = Memory(), with_op("rotate", counted)
    assert validated(backend, SHAPES, CPU, torch.float32, memory) is backend
    before = len(calls)
    assert before and validated(backend, SHAPES, CPU, torch.float32, memory) is backend
    assert (len(calls), memory.found) == (before, 1)


def test_what_was_wrong_before_is_wrong_again_without_a_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lies(*inputs: Any) -> Any:
        return honest("add")(*inputs) + 1

    memory = Memory()
    names = [validated(with_op("add", lies), SHAPES, CPU, torch.float32, memory).name for _ in "ab"]
    assert names == ["odd, plain add"] * 2 and memory.found == 1
    assert ["off by" in record.getMessage() for record in caplog.records] == [True, True]


def test_what_raised_once_is_tried_again() -> None:
    """A lack of memory passes; remembered, it would cost the kernel for ever."""
    left = ["once"]

    def raises_once(*inputs: Any) -> Any:
        if left:
            left.pop()
            raise torch.OutOfMemoryError("no memory just now")
        return honest("add")(*inputs)

    memory, backend = Memory(), with_op("add", raises_once)
    assert validated(backend, SHAPES, CPU, torch.float32, memory).name == "odd, plain add"
    assert validated(backend, SHAPES, CPU, torch.float32, memory) is backend


def test_another_library_type_device_or_size_is_tried_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, backend = Memory(), with_op("rotate", honest("rotate"))
    validated(backend, SHAPES, CPU, torch.float32, memory)
    validated(replace(backend, name="another library"), SHAPES, CPU, torch.float32, memory)
    validated(backend, SHAPES, CPU, torch.bfloat16, memory)
    validated(backend, list(SHAPES)[:1], CPU, torch.float32, memory)
    monkeypatch.setattr(self_test, "device_facts", lambda device: "another driver")
    validated(backend, SHAPES, CPU, torch.float32, memory)
    assert memory.found == len(memory.known) == 5


@pytest.mark.parametrize("known", ["{", "5", "null", "[]"])
def test_a_memory_that_makes_no_sense_is_tried_anew(known: str) -> None:
    backend = with_op("rotate", honest("rotate"))
    assert validated(backend, SHAPES, CPU, torch.float32, lambda name, find: known) is backend


def test_trying_can_be_cancelled() -> None:
    class CancelledError(Exception):
        pass

    def cancel() -> None:
        raise CancelledError

    with pytest.raises(CancelledError):
        validated(with_op("add", honest("add")), SHAPES, CPU, torch.float32, check=cancel)


def test_the_digest_is_of_all_kernels_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what was found about a kernel would hold for the next one of its name."""
    read: set[str] = set()
    read_bytes = Path.read_bytes

    def noted(path: Path) -> bytes:
        read.add(path.as_posix().rpartition("/kernels/")[2])
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    self_test.sources.__wrapped__()
    assert {"mamba1/gpu.py", "linear/gpu.py", "native_ops.py", "self_test/rows.py"} <= read
