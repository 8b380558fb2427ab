"""Levels of processors in the speed benches. No times."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from core.client.programs import ROOT
from kernels.native import levels as native
from tests.bench import __main__ as command
from tests.bench import machine
from tests.bench.levels import LEVELS, Level, here
from tests.bench.machine import Limits, Product
from tests.bench.options import NAMES, parsed, title_of
from tests.kernels.native.here import compiled_for
from tests.sweeps import first_quick

SEEN = """
import torch
from kernels.linear.cpu import can_pack
from kernels.native.levels import wished
print(torch.backends.cpu.get_cpu_capability(), wished().name, can_pack(torch.bfloat16))
"""


@pytest.fixture
def old_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with AVX2 and no more."""
    old = tuple(each for each in native.LEVELS if each.name in {"x86-64-v2", "x86-64-v3"})
    monkeypatch.setattr(native, "executable", lambda: old)


def test_levels_are_those_of_the_kernels_in_their_order() -> None:
    names = [each.name for each in native.LEVELS]
    places = [names.index(each.kernels) for each in LEVELS]
    assert places == sorted(places) and len({each.name for each in LEVELS}) == len(LEVELS)


def test_a_machine_without_levels_is_measured_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "executable", lambda: (native.LEVELS[-1],))  # an Arm processor
    options = parsed([])
    assert options.level is None and options.is_at_level
    assert title_of("ops", "0.8B", "cpu", options.level) == "ops"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("avx512", "can't run at level avx512; it has avx2"), ("sse9", "invalid choice")],
)
def test_a_level_that_the_machine_has_not_got_is_refused_at_once(
    name: str, reason: str, old_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(["--level", name])
    assert reason in capsys.readouterr().err
    assert parsed([]).level == LEVELS[0], "the newest level is the machine's own"


def test_a_level_is_set_for_a_whole_process(
    old_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []

    def run(
        arguments: list[str], env: dict[str, str], check: bool
    ) -> subprocess.CompletedProcess[str]:
        started.append((arguments, env))
        return subprocess.CompletedProcess(arguments, 3)

    monkeypatch.setattr(subprocess, "run", run)
    asked = ["ops", "--quick", "--level", "avx2"]
    assert command.main(asked) == 3
    ((arguments, environment),) = started
    assert arguments[1:] == ["-m", "tests.bench", *asked]
    assert environment == {**os.environ, **LEVELS[0].environment()}
    for name, value in LEVELS[0].environment().items():
        monkeypatch.setenv(name, value)
    assert parsed(asked).is_at_level, "and not once more in there"


@pytest.mark.parametrize("level", first_quick(LEVELS), ids=lambda level: str(level.name))
def test_libraries_take_the_level(level: Level) -> None:
    if level not in here():
        pytest.skip("this processor has not got the level")
    ran = subprocess.run(
        [sys.executable, "-c", SEEN], env={**os.environ, **level.environment()}, cwd=ROOT,
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    capability, kernels, packs = ran.stdout.split()
    assert (capability, kernels) == (level.torch.upper(), level.kernels)
    assert packs == str(level.torch == "avx512"), "oneDNN's packed bfloat16 begins there"


@pytest.mark.slow
def test_a_quick_run_is_at_the_level_that_it_names(shared_folder: Path) -> None:
    if not here():
        pytest.skip("levels are x86's")
    level = here()[0]
    compiled_for(level.kernels, shared_folder)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--level", level.name,
         "--precision", "int8", "--threads", "1", "--peers", "float32"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3_000:]
    for name in NAMES:
        assert f"## {title_of(name, '0.8B', 'cpu', level)}\n\nA tiny shape, at level" in ran.stdout
    assert "**int8**, beside transformers in float32\n" in ran.stdout


class Played(Product):
    """A product that takes as long as it is told."""

    def rate(self) -> float:
        self.call()
        return float(self.operations)


def test_the_limit_is_float32s_where_bfloat16_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[torch.dtype] = []

    def products(dtype: torch.dtype, rows: Iterable[int]) -> Iterable[Product]:
        def call() -> torch.Tensor:
            taken.append(dtype)
            return torch.zeros(0)

        return [Played(dtype, 26 if dtype == torch.bfloat16 else 268, call)]

    monkeypatch.setattr(machine, "_products", products)
    limits = Limits(read_bytes=2**12)
    assert [limits.multiply(torch.bfloat16) for _ in range(3)] == [268, 268, 268]
    assert limits.taken == {"bfloat16": [26], "float32": [268, 268, 268]}
    assert taken.count(torch.bfloat16) == 1, "what is far behind costs time once"
