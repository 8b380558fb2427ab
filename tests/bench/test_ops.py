"""The ops of the speed benches; a processor plays the GPU, in Triton's interpreter. No times."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Literal

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3_5 import modeling_qwen3_5 as oracle

from tests.bench import __main__ as command
from tests.bench import op_rounds
from tests.bench.clock import ProcessorClock, Stretch
from tests.bench.gpu import fla, machine
from tests.bench.gpu.machine import COPYING, GpuLimits
from tests.bench.machine import READING
from tests.bench.op_rounds import OTHER_NUMBERS, OWN, measure, ops_table
from tests.bench.ops import FLA, PLAIN, QUICK, Call, Numbers, Op, all_ops, delta_rules
from tests.bench.options import parsed
from tests.bench.test_speed import lines_of
from tests.kernels.gpu import hardware_arithmetic

HERE = torch.device("cpu")
PRECISIONS = ("bfloat16", "int8", "int4")
Kind = Literal["cpu", "gpu"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def quick_limits() -> GpuLimits:
    return GpuLimits(ProcessorClock(), HERE, 2**16, (16,))


@pytest.mark.parametrize("kind", ["cpu", pytest.param("gpu", marks=pytest.mark.slow)])
def test_every_op_has_its_line_and_gives_the_numbers_of_the_others(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Functions of transformers take the arguments of flash-linear-attention's: it calls either.
    others = {
        fla.CHUNKED: oracle.torch_chunk_gated_delta_rule,
        fla.RECURRENT: oracle.torch_recurrent_gated_delta_rule,
    }
    monkeypatch.setattr(fla, "rule", others.__getitem__)
    on_gpu = kind == "gpu"
    with hardware_arithmetic() if on_gpu else nullcontext():
        numbers = Numbers(QUICK, HERE, kind)
        names = [op.name for each in PRECISIONS for op in all_ops(numbers, each)]
        text = op_rounds.ops_text(
            PRECISIONS, numbers, quick_limits(), ProcessorClock(), lambda said: None
        )
    lines = [line for line in lines_of(text) if line[0] != "op"]
    assert [line[0] for line in lines] == names
    assert OTHER_NUMBERS not in text and "raised" not in text and "Not measured" not in text
    plain, theirs = (7, 8) if on_gpu else (4, None)
    alone = {line[0] for line in lines if not line[plain]}
    # Torch's own matrices have no other beside them on a GPU.
    assert all(name.startswith(("gate and up", "down")) for name in alone)
    assert bool(alone) == on_gpu
    if theirs is not None:
        deltas = [name for name in names if name.startswith("gated delta")]
        assert [line[0] for line in lines if line[theirs]] == deltas
        # A processor captures nothing, so launched calls are told alone.
        assert {line[1] for line in lines} == {""} and all(line[6] for line in lines)


def test_without_others_a_cell_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fla, "find_spec", lambda name: None)
    with hardware_arithmetic():
        step = next(delta_rules(Numbers(QUICK, HERE, "gpu")))
        assert step.others[FLA] == fla.NOT_INSTALLED
        (line,) = lines_of(ops_table([measured(step)], on_gpu=True))[1:]
    assert (line[5], line[8]) == (fla.NOT_INSTALLED, fla.NOT_INSTALLED)
    monkeypatch.setattr(fla, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "fla.ops.gated_delta_rule", None)
    assert fla.rule(fla.CHUNKED) == "does not load"


def measured(op: Op, clock: ProcessorClock | None = None) -> op_rounds.Measured:
    return measure(op, quick_limits(), clock or ProcessorClock(), QUICK)


def made(*others: float) -> Op:
    """An op whose own result is 1, beside others with results of their own."""

    def answering(result: Tensor) -> Call:
        return lambda number: (result, None)

    calls = {f"other {place}": answering(torch.tensor(each)) for place, each in enumerate(others)}
    return Op("it", lambda _: torch.tensor(1.0), 1, 8, others=calls)


def test_who_computes_something_else_or_raises_is_not_compared() -> None:
    found = measured(made(1.02, 1.1, float("nan")))
    assert set(found.launched) == {OWN, "other 0"}
    assert found.missing == dict.fromkeys(("other 1", "other 2"), OTHER_NUMBERS)

    def raising(number: int) -> None:
        raise ValueError("no such size")

    found = measured(replace(made(), others={FLA: raising}))
    assert set(found.launched) == {OWN} and found.missing == {FLA: "raised ValueError"}


class Capturing(ProcessorClock):
    """Captures everything; calls take a second, replayed ones half of it."""

    def __init__(self) -> None:
        self.replayed: list[Stretch] = []

    def seconds(self, stretch: Stretch) -> float:
        stretch()
        return 0.5 if stretch in self.replayed else 1.0

    def captured(self, stretch: Stretch) -> Stretch:
        again = partial(stretch)  # something else than the calls themselves
        self.replayed.append(again)
        return again


def test_replayed_calls_come_first_in_the_table() -> None:
    op = replace(made(1.0), least_bytes=10**9)
    found = measured(replace(op, others={PLAIN: op.others["other 0"]}), Capturing())
    assert found.replayed == {name: [0.5] * QUICK.rounds for name in (OWN, PLAIN)}
    assert found.rate.middle == 2e9 and not found.by_products
    line = lines_of(ops_table([found], on_gpu=True))[1]
    assert line[1].startswith("500,000") and line[2].startswith("2.00") and "GB/s" in line[2]
    assert line[4].startswith("1.00") and line[6].startswith("1,000,000")


def test_the_slower_of_two_limits_is_the_floor() -> None:
    class Fixed:
        def move(self) -> float:
            return 2.0

        def multiply(self, dtype: torch.dtype) -> float:
            return 100.0

    op = replace(made(), least_bytes=8)
    for operations, floor in ((0, 4.0), (300, 4.0), (500, 5.0)):
        found = measure(replace(op, operations=operations), Fixed(), Capturing(), QUICK)
        assert found.floors == [floor] * QUICK.rounds
        assert found.of_limit.middle == 2 * floor and found.by_products == (floor > 4)


def test_an_op_that_fails_costs_its_line_alone_below_the_name_of_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(number: int) -> None:
        raise RuntimeError("out of memory\nand much more")

    broken, limits = replace(made(), name="broken", run=failing), quick_limits()
    monkeypatch.setattr(op_rounds, "all_ops", lambda numbers, precision: [broken, made(1.0)])
    monkeypatch.setattr(machine, "gpu", lambda: "a GPU")
    options = parsed(["ops", "--quick", "--precision", "int8"])
    text = command.gpu_text(options, "ops", "4B", limits, ProcessorClock())
    assert text.startswith("A tiny shape, on a GPU; in ") and "GB/s copied" in text
    assert [line[0] for line in lines_of(text)] == ["op", "it"]
    assert "Not measured: broken (RuntimeError: out of memory)." in text
    assert set(limits.taken) == {COPYING, READING}
