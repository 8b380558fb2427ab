"""The ops of a GPU's bench where there is no GPU, in Triton's interpreter. No times."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is published for Linux alone")

from transformers.models.qwen3_5 import modeling_qwen3_5 as oracle

from tests.bench import __main__ as command
from tests.bench.gpu import fla, report, rounds, words
from tests.bench.gpu.case import FLA, PLAIN, QUICK, Call, Case, Numbers
from tests.bench.gpu.clock import ProcessorClock, Stretch
from tests.bench.gpu.delta import delta_cases
from tests.bench.gpu.machine import COPYING, GpuLimits
from tests.bench.gpu.tables import TITLES, ops_table
from tests.bench.machine import READING
from tests.bench.options import parsed
from tests.bench.test_speed import lines_of
from tests.kernels.gpu import hardware_arithmetic

HERE = torch.device("cpu")  # which plays the GPU
QUICK_BYTES, QUICK_SIZES = 2**16, (16,)


@pytest.fixture(autouse=True)
def played_gpu() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with hardware_arithmetic():
        yield
    torch.set_num_threads(threads)


def quick_limits() -> GpuLimits:
    return GpuLimits(ProcessorClock(), HERE, QUICK_BYTES, QUICK_SIZES)


def test_every_op_has_its_line_and_gives_what_the_others_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # transformers' own functions are called as flash-linear-attention's are, for it calls either.
    others = {
        fla.CHUNKED: oracle.torch_chunk_gated_delta_rule,
        fla.RECURRENT: oracle.torch_recurrent_gated_delta_rule,
    }
    monkeypatch.setattr(fla, "rule", others.__getitem__)
    limits, said = quick_limits(), list[str]()
    precisions = ("bfloat16", "int8", "int4")
    text = report.ops_text(precisions, QUICK, HERE, limits, ProcessorClock(), said.append)
    header, *lines = (line for line in lines_of(text) if line)
    assert tuple(header) == TITLES
    lines = [line for line in lines if line[0] != "op"]
    assert said[::2] == [f"{name}: {line[0]}" for name, line in named(precisions, lines)]
    assert {len(line) for line in lines} == {len(TITLES)}
    # Nothing is captured on a processor, so the launched calls stand for all.
    assert {line[1] for line in lines} == {""} and all(line[6] for line in lines)
    beside = {line[0]: (line[7], line[8]) for line in lines}
    assert rounds.OTHER_NUMBERS not in text and fla.NOT_INSTALLED not in text
    delta = [name for name in beside if name.startswith("gated delta")]
    assert len(delta) == 1 + len(QUICK.delta_runs)
    assert all(plain and other for plain, other in (beside[name] for name in delta))
    assert {name for name, (_, other) in beside.items() if other} == set(delta)
    assert set(limits.taken) == {COPYING, READING, "bfloat16"}


def named(precisions: tuple[str, ...], lines: list[list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Each line with its precision: every precision begins with the same matrix."""
    remaining = iter(precisions)
    precision = ""
    for line in lines:
        if line[0] == "gate and up, 1 row":
            precision = next(remaining)
        yield precision, line


def test_without_others_a_cell_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fla, "find_spec", lambda name: None)
    step = next(delta_cases(Numbers(QUICK, HERE)))
    assert step.others[FLA] == fla.NOT_INSTALLED
    (line,) = lines_of(ops_table([measured(step)]))[1:]
    assert (line[5], line[8]) == (fla.NOT_INSTALLED, fla.NOT_INSTALLED)
    monkeypatch.setattr(fla, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "fla.ops.gated_delta_rule", None)
    assert fla.rule(fla.CHUNKED) == "does not load"


def measured(case: Case, clock: ProcessorClock | None = None) -> rounds.Measured:
    return rounds.measure(case, quick_limits(), clock or ProcessorClock(), QUICK)


def made(*others: float, number: float = 1.0) -> Case:
    """A case whose own result is `number`, beside others with results of their own."""
    results = {f"other {place}": torch.tensor(each) for place, each in enumerate(others)}

    def answering(result: Tensor) -> Call:
        return lambda number: (result, None)

    calls = {name: answering(result) for name, result in results.items()}
    return Case("it", lambda _: torch.tensor(number), 1, 8, others=calls)


def test_who_computes_something_else_is_not_compared() -> None:
    found = measured(made(1.02, 1.1, float("nan")))
    assert set(found.launched) == {rounds.OWN, "other 0"}
    assert found.missing == dict.fromkeys(("other 1", "other 2"), rounds.OTHER_NUMBERS)
    ids = Case("ids", lambda _: torch.tensor([1000]), 1, 8, others={PLAIN: lambda _: 1001})
    assert measured(ids).missing == {PLAIN: rounds.OTHER_NUMBERS}


def test_who_raises_is_not_compared() -> None:
    def raising(number: int) -> None:
        raise ValueError("no such size")

    found = measured(replace(made(1.0), others={FLA: raising}))
    assert set(found.launched) == {rounds.OWN} and found.missing == {FLA: "raised ValueError"}


class Capturing(ProcessorClock):
    """Captures all there is; each stretch of calls takes a second, a replayed one half of it."""

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
    found = measured(replace(made(1.0), least_bytes=10**9), Capturing())
    assert found.replayed == {name: [0.5] * QUICK.rounds for name in (rounds.OWN, "other 0")}
    assert set(found.launched) == {rounds.OWN, "other 0"}
    assert found.rate.middle == 2e9 and not found.by_products
    assert rounds.times(found.replayed, "other 0") is not None
    line = lines_of(ops_table([found]))[1]
    assert line[1].startswith("500,000") and line[2].startswith("2.00") and "GB/s" in line[2]


def test_the_slower_of_two_limits_is_the_floor() -> None:
    class Fixed:
        def move(self) -> float:
            return 2.0

        def multiply(self, dtype: torch.dtype) -> float:
            return 100.0

    case = replace(made(), least_bytes=8)
    for operations, floor in ((0, 4.0), (300, 4.0), (500, 5.0)):
        bounded = replace(case, operations=operations)
        found = rounds.measure(bounded, Fixed(), Capturing(), QUICK)
        assert found.floors == [floor] * QUICK.rounds
        assert found.of_limit.middle == 2 * floor and found.by_products == (floor > 4)


def test_arguments_lie_apart() -> None:
    numbers = Numbers(QUICK, HERE)
    assert numbers.copies_of(2**20) == 1 and numbers.copies_of(1) == QUICK.copies
    many = numbers.apart(2, 3)
    assert len(many) == QUICK.copies and torch.equal(many[0], many[1])
    assert many[0].data_ptr() != many[1].data_ptr()


def test_an_op_that_fails_costs_its_line_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(number: int) -> None:
        raise RuntimeError("out of memory\nand much more")

    broken = replace(made(1.0), name="broken", run=failing)
    monkeypatch.setattr(report, "all_cases", lambda numbers, precision: [broken, made(1.0)])
    text = report.ops_text(["int8"], QUICK, HERE, quick_limits(), ProcessorClock(), print)
    assert [line[0] for line in lines_of(text)] == ["op", "it"]
    assert "Not measured: broken (RuntimeError: out of memory)." in text


def test_a_gpu_is_named_above_its_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "gpu", lambda: "a GPU")
    monkeypatch.setattr(report, "all_cases", lambda numbers, precision: [made(1.0)])
    options = parsed(["ops", "--quick", "--precision", "int8"])
    text = command.gpu_text(options, "ops", "4B", quick_limits(), ProcessorClock())
    assert text.startswith("A tiny shape, on a GPU; in ")
    assert text.count("| it |") == 1 and "GB/s copied" in text
