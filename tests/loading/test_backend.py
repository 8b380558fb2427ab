"""Which kernels are chosen, and that a measured choice is made once."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from core.api.errors import UnsupportedDeviceError
from core.loading import precision
from core.loading.precision import VARIABLE, Chooser, recalled, remembered, what_slows
from core.storage.store import MOST_NOTES, DiskStore
from kernels import dispatch
from kernels.common import capability
from kernels.dispatch import DEFAULT_ROWS, REFERENCE, Backend, backend
from kernels.linear.int8 import Int8Format
from kernels.linear.native import NativeBfloatFormat, Product
from kernels.linear.probe import CHOICES
from kernels.linear.reference import Integers, WeightFormat
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.storage.disks import RoomyFiles

CPU, GPU = torch.device("cpu"), torch.device("cuda")


class Probe:
    """Counts its calls and answers 256."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, dtype: torch.dtype, integers: str | None) -> int:
        self.calls += 1
        return 256


@pytest.fixture(autouse=True)
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    """Measures how many rows are multiplied at once."""
    probe = Probe()
    monkeypatch.setattr(precision, "best_rows", probe)
    return probe


def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play a machine without a compiler."""
    monkeypatch.setattr(precision, "compiled", lambda check: None)


def answer(monkeypatch: pytest.MonkeyPatch, *types: torch.dtype) -> None:
    """Measure these as the faster types, one after the other."""
    answers = iter(types)
    monkeypatch.setattr(precision, "faster_float", lambda formats: next(answers))


def notes(folder: Path) -> DiskStore:
    """The store in a folder, as every start opens it anew."""
    return DiskStore(folder, 0, RoomyFiles())


def measured(folder: Path, dtype: torch.dtype = torch.float32) -> Backend:
    """The backend with what is remembered in a folder."""
    return Chooser(measures=True, notes=notes(folder)).backend(CPU, dtype)


def plays_gpu() -> Any:
    """The operations of a GPU, where Triton is installed."""
    return pytest.importorskip("kernels.gpu_ops", reason="Triton is published for Linux alone")


def test_nothing_is_measured_unless_asked(probe: Probe) -> None:
    chosen = Chooser().backend(CPU, torch.float32)
    assert chosen.name == backend("cpu", torch.float32, DEFAULT_ROWS).name
    assert probe.calls == 0


def test_a_measured_choice_is_made_once_for_each_type(
    tmp_path: Path, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new" / "contexts"
    without_library(monkeypatch)
    for _ in range(3):
        chosen = measured(folder)
        assert chosen.name == backend("cpu", torch.float32, 256).name
    assert probe.calls == 1
    measured(folder, torch.bfloat16)
    assert probe.calls == 2
    Chooser(measures=True, notes=notes(folder)).backend(CPU, torch.bfloat16, "int8")
    assert probe.calls == 3
    measured(folder)
    assert probe.calls == 3


@NEEDS_COMPILER
@pytest.mark.parametrize("integers", [None, "int8", "int4"])
def test_compiled_kernels_have_no_slices_to_measure(
    integers: Integers | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Chooser(measures=True).backend(CPU, torch.bfloat16, integers)
    assert chosen.name.startswith(f"compiled {library().digest}") and chosen.shares_out
    without_library(monkeypatch)
    without = Chooser(measures=True).backend(CPU, torch.bfloat16, integers)
    assert without.name.startswith("onednn") and not without.shares_out


@NEEDS_COMPILER
def test_how_many_rows_are_multiplied_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Product] = ["torch", "floats"]
    monkeypatch.setattr(precision, "best_product", lambda found: answers.pop(0))
    for _ in range(2):
        chosen = measured(tmp_path, torch.bfloat16)
        assert "torch" in chosen.name.split(", ") and chosen.formats.batch_invariant == "steps"
    assert answers == ["floats"]
    unmeasured = Chooser().backend(CPU, torch.bfloat16)
    assert ("pairs" if library().has_pairs else "floats") in unmeasured.name.split(", ")
    assert unmeasured.formats.batch_invariant == "always"


def test_what_slows_replies_is_told_where_kernels_are_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slowed(device: torch.device, dtype: torch.dtype, kernels: Backend = REFERENCE) -> str:
        return what_slows(kernels, device, dtype, None)

    monkeypatch.setattr(precision, "why_none", lambda: "no C compiler was found")
    assert slowed(CPU, torch.bfloat16) == "no C compiler was found"
    assert slowed(CPU, torch.bfloat16, replace(REFERENCE, shares_out=True)) == ""
    assert slowed(CPU, torch.float32) == ""
    assert slowed(GPU, torch.bfloat16) == ""
    monkeypatch.setenv(VARIABLE, "torch")  # whoever wishes for torch's misses nothing
    assert slowed(CPU, torch.bfloat16) == ""


def test_torch_alone_can_be_wished_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(check: Callable[[], None] | None) -> None:
        raise AssertionError("nobody should compile anything")

    monkeypatch.setenv(VARIABLE, "torch")
    monkeypatch.setattr(precision, "compiled", unwanted)
    wished = Chooser().backend(CPU, torch.bfloat16, "int8")
    assert wished.name == backend("torch", torch.bfloat16, DEFAULT_ROWS, "int8").name


def test_the_faster_type_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, torch.float32)
    without_library(monkeypatch)
    for _ in range(3):
        found = Chooser(measures=True, notes=notes(tmp_path)).faster_type()
        assert found == torch.float32
    assert Chooser().faster_type() is None


@NEEDS_COMPILER
def test_the_faster_type_is_measured_with_the_matrices_that_run_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Mapping[torch.dtype, WeightFormat]] = []

    def measure(formats: Mapping[torch.dtype, WeightFormat]) -> torch.dtype:
        given.append(formats)
        return torch.bfloat16

    monkeypatch.setattr(precision, "faster_float", measure)
    Chooser(measures=True).faster_type()
    without_library(monkeypatch)
    Chooser(measures=True).faster_type()
    compiled, torchs = given
    assert isinstance(compiled[torch.bfloat16], NativeBfloatFormat)
    assert not isinstance(torchs[torch.bfloat16], NativeBfloatFormat)
    for formats in given:
        as_loaded = Chooser().backend(CPU, torch.float32).formats.usual
        assert type(formats[torch.float32]) is type(as_loaded)


@NEEDS_COMPILER
def test_the_faster_type_of_other_kernels_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, torch.float32, torch.bfloat16, torch.float32)

    def found() -> torch.dtype | None:
        return Chooser(measures=True, notes=notes(tmp_path)).faster_type()

    with monkeypatch.context() as patches:
        without_library(patches)
        assert found() == torch.float32
    assert found() == torch.bfloat16
    with monkeypatch.context() as patches:
        patches.setattr(library(), "digest", "of another compiler")
        assert found() == torch.float32
    assert found() == torch.bfloat16


def test_an_interpreted_gpu_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(_: object) -> torch.dtype:
        raise AssertionError("it takes minutes")

    monkeypatch.setenv(VARIABLE, "gpu")
    monkeypatch.setattr(precision, "faster_float", measure)
    assert Chooser(measures=True).faster_type() is None


def test_what_was_found_on_this_machine_is_found_once(tmp_path: Path) -> None:
    answers = iter(["it raised", "another"])
    for _ in range(2):
        assert recalled(notes(tmp_path), "a kernel", lambda: next(answers)) == "it raised"
    assert recalled(notes(tmp_path), "another kernel", lambda: next(answers)) == "another"


def test_a_damaged_memory_is_measured_anew_and_mended(tmp_path: Path, probe: Probe) -> None:
    measured(tmp_path)
    for path in tmp_path.glob("index.db*"):
        path.write_bytes(b"damage")
    measured(tmp_path)
    measured(tmp_path)
    assert probe.calls == 2


def test_a_remembered_choice_that_is_none_is_measured_anew(tmp_path: Path, probe: Probe) -> None:
    measured(tmp_path)
    assert 7 not in CHOICES
    with closing(sqlite3.connect(tmp_path / "index.db")) as index, index:
        assert index.execute("UPDATE notes SET value = '7' WHERE value = '256'").rowcount == 1
    assert measured(tmp_path).name.endswith("256 rows")
    assert probe.calls == 2


def test_a_folder_that_cant_be_written_costs_a_measurement_a_start(
    tmp_path: Path, probe: Probe
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    for _ in range(2):
        measured(in_the_way / "contexts")
    assert probe.calls == 2


def test_the_variable_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "reference")
    assert Chooser(measures=True).backend(CPU, torch.float32) is REFERENCE
    monkeypatch.setenv(VARIABLE, "")
    assert Chooser(measures=True).backend(CPU, torch.float32) is not REFERENCE


def test_an_unknown_backend_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "warp")
    with pytest.raises(UnsupportedDeviceError, match=r"warp.*reference, torch, cpu"):
        Chooser(measures=True).backend(CPU, torch.float32)


@pytest.mark.parametrize("wish", ["", "gpu"])
def test_a_gpu_that_runs_its_kernels_gets_them(monkeypatch: pytest.MonkeyPatch, wish: str) -> None:
    monkeypatch.setenv(VARIABLE, wish)
    operations = plays_gpu().GPU_OPS
    monkeypatch.setattr(dispatch, "gpu_kernels_run", lambda: True)
    monkeypatch.setattr(plays_gpu(), "multiplies_integers", lambda device: True)
    chosen = Chooser(measures=True).backend(GPU, torch.bfloat16)
    assert chosen.ops is operations
    assert chosen.name.startswith("triton ")
    in_int8 = Chooser(measures=True).backend(GPU, torch.bfloat16, "int8")
    assert in_int8.name.endswith("int8") and isinstance(in_int8.formats.usual, Int8Format)
    monkeypatch.setattr(plays_gpu(), "multiplies_integers", lambda device: False)
    in_floats = Chooser(measures=True).backend(GPU, torch.bfloat16, "int8")
    assert in_floats.name.endswith("int8 in floats")


@pytest.mark.parametrize("wish", ["", "gpu"])
def test_a_gpu_that_does_not_gets_plain_torch_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wish: str
) -> None:
    monkeypatch.setenv(VARIABLE, wish)
    monkeypatch.setattr(capability, "what_is_missing", lambda: "the driver is too old")
    capability.gpu_kernels_run.cache_clear()
    for _ in range(2):
        chosen = Chooser(measures=True).backend(GPU, torch.bfloat16)
        assert chosen is REFERENCE
    capability.gpu_kernels_run.cache_clear()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "the driver is too old" in caplog.text


def test_a_processor_runs_gpu_kernels_only_in_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "gpu")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    operations = plays_gpu().GPU_OPS
    chosen = Chooser(measures=True).backend(CPU, torch.float32)
    assert chosen.ops is operations and "interpreted" in chosen.name
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(UnsupportedDeviceError, match="processor"):
        Chooser(measures=True).backend(CPU, torch.float32)


def test_nothing_that_is_noted_pushes_out_what_was_measured(tmp_path: Path) -> None:
    """It is part of the contexts' fingerprint; measured in a busy moment it may be another."""
    blobs = notes(tmp_path)
    assert remembered(blobs, "rows", (1, 2), lambda: 1) == 1
    for number in range(MOST_NOTES + 1):
        recalled(blobs, f"a model {number}", lambda: "nothing is wrong")
    assert remembered(blobs, "rows", (1, 2), lambda: 2) == 1
