"""The GPU bench on a machine without a GPU: command line, texts, warm-up."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from kernels.common.capability import what_is_missing
from tests.bench import __main__ as command
from tests.bench import model
from tests.bench.folders import TINY, write_random
from tests.bench.gpu import fla
from tests.bench.gpu import machine as words
from tests.bench.gpu.machine import COPYING, installed
from tests.bench.machine import READING
from tests.bench.options import parsed
from tests.bench.peer import Engine, Reading, Task
from tests.bench.rounds import QUICK, Plan, Row, Step, interleaved
from tests.bench.speed_tables import PEER, model_table
from tests.bench.test_speed import Scripted, lines_of
from tests.bench.transformers_peer import called_packages


@pytest.mark.parametrize(
    "arguments", [["--device", "cuda"], ["--device", "tpu"], ["--shape", "3B"]]
)
def test_what_cannot_be_measured_is_said_at_once(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(arguments)
    said = capsys.readouterr().err
    missing = what_is_missing()
    assert missing is not None
    expected = {"cuda": missing, "tpu": "invalid choice", "3B": "there is no shape 3B"}
    assert expected[arguments[-1]] in said


def test_limits_are_told_in_their_units() -> None:
    taken = {COPYING: [4.3e12], READING: [4.5e12], "bfloat16": [7.9e14]}
    copied, read = words._MOVED[COPYING], words._MOVED[READING]
    assert words.told(taken) == f"790 TFLOP/s in bfloat16; 4,300 {copied}; 4,500 {read}"
    assert installed("torch") == version("torch")
    assert installed("no package of this name") == fla.NOT_INSTALLED


def test_whose_kernels_transformers_called_is_told() -> None:
    helper = ModuleType("fla.ops")
    exec("def compute(): pass", vars(helper))
    assert called_packages(helper.compute) == ["fla"]
    assert called_packages(lambda: None) == [] and sys.getprofile() is None
    step = Step("prompt", 8)
    for called, expected in (("", "torch's"), ("fla, causal_conv1d", "of fla, causal_conv1d")):
        row = Row(step, {PEER: [Reading(1.0, helpers=called)]})
        assert expected in words.helped({step: row})


def test_on_a_gpu_first_times_do_not_count_and_other_ids_are_told() -> None:
    step = Step("generate", 2, 8)
    first = Reading(9.0, tokens=2, context=8, ids=(1, 2))
    ours = Reading(1.0, tokens=2, context=8, ids=(1, 2), least_bytes=3 * 10**9)
    other = replace(ours, ids=(1, 3), least_bytes=0)
    peers = {"it": Scripted(first, ours, ours), PEER: Scripted(first, ours, other)}
    row = interleaved(Plan(tokens=2, rounds=2, warm=True), step, peers, lambda: 6e9)
    assert row.seconds("it") == [1.0, 1.0] and row.strayed == {PEER}
    assert words.strayed([row], "it") == [f"{PEER} drew other ids in a later round of generate 2 "
                                          "behind 8"]  # fmt: skip
    header, line = lines_of(model_table({step: row}, "it", rates=True))
    assert header[4:] == ["of the limit", "a second"]
    assert line[4:] == ["0.50 [0.50-0.50]", "3.00 [3.00-3.00] GB/s"]


class Answering:
    """A peer that does what it is told, in a second."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.context = engine, 0
        self.asked: list[tuple[Task, int]] = []

    def run(self, task: Task, size: int) -> Reading:
        self.asked.append((task, size))
        if task in ("prompt", "context"):
            self.context = size
        helpers = "fla" if self.engine.name == PEER else ""
        ids = tuple(range(size)) if task == "generate" else ()
        return Reading(1.0, size, self.context, ids, least_bytes=1, peak_bytes=1, helpers=helpers)

    def close(self) -> None:
        pass


def test_models_are_opened_on_the_gpu_and_warmed_up(tmp_path: Path) -> None:
    peers: list[Answering] = []

    def opened(engine: Engine) -> Answering:
        peers.append(Answering(engine))
        return peers[-1]

    options = parsed(["model", "--quick", "--precision", "bfloat16", "int4"])
    options.device = "cuda"
    said = list[str]()
    alone = model.Subject(write_random(tmp_path / "tiny", TINY), model.Beside([], said.append))
    text = model.text(options, alone, tmp_path, command.quick_limits(), opened, said.append)
    assert [each.engine.precision for each in peers] == ["bfloat16", "int4", "bfloat16"]
    assert {each.engine.device for each in peers} == {"cuda"}
    assert text.count("called kernels of fla") == 2 and "llama" not in text
    assert lines_of(text)[0][-1] == "a second"
    for peer in peers:
        asked = Counter(peer.asked)
        assert {asked["image", size] for size in QUICK.images} == {1 + QUICK.rounds}
        assert asked["generate", QUICK.tokens] == 3 * (1 + QUICK.rounds)
        assert asked["load", 0] == QUICK.rounds
