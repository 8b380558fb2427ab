"""Reading: the right numbers and types, one digest, progress, cancel, files that change."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from core.api.errors import (
    BrokenWeightsError,
    MissingTensorError,
    NotEnoughMemoryError,
    RequestCancelled,
    UnsupportedDeviceError,
    WaymarkError,
    WrongShapeError,
)
from core.loading.plan import check_plain
from core.loading.reading import TensorReader
from core.weights import spec as specs
from core.weights import stream
from core.weights.memory import allocate
from core.weights.published.folder import ModelFolder
from core.weights.safetensors_file import WeightsFile, read_header
from core.weights.spec import TensorSpec, Use, WeightPlan, bytes_to_read
from core.weights.table import FileTable
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import PLAIN, PlainFormat, QuantisedTensors, WeightFormats

CPU = torch.device("cpu")


def write(path: Path, **tensors: Tensor) -> WeightsFile:
    save_file(tensors, str(path))
    return read_header(path)


def plan_of(dtype: torch.dtype, **tensors: Tensor) -> WeightPlan:
    return {name: TensorSpec(tuple(tensor.shape), dtype) for name, tensor in tensors.items()}


def read(
    plan: WeightPlan,
    *files: WeightsFile,
    formats: WeightFormats = PLAIN,
    advance: Callable[[int], None] = lambda num_bytes: None,
) -> tuple[TensorReader, str]:
    """The reader of planned tensors and the digest of the files."""
    folder = ModelFolder(Path(), {}, files)
    model = SimpleNamespace(container=folder, published=lambda name: name)
    planned: Any = SimpleNamespace(model=model, tensors=plan, packed={}, formats=formats)
    reader = TensorReader(planned, CPU)
    return reader, reader.read(advance)


def load(plan: WeightPlan, *files: WeightsFile) -> tuple[dict[str, Tensor], str]:
    stored = {name: each for file in files for name, each in file.tensors.items()}
    for name, spec in plan.items():
        check_plain(name, spec, stored.get(name))
    reader, digest = read(plan, *files)
    return reader.tensors, digest


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PIECE_BYTES", 64)


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (), (3, 5), (0, 4), (32,), (33,), (7, 1, 4), (1000,)])
def test_numbers_arrive_converted(
    tmp_path: Path, shape: tuple[int, ...], stored: torch.dtype, wanted: torch.dtype
) -> None:
    tensor = torch.randn(shape).to(stored)
    file = write(tmp_path / "a.safetensors", tensor=tensor)
    tensors, _ = load(plan_of(wanted, tensor=tensor), file)
    assert tensors["tensor"].dtype == wanted
    assert torch.equal(tensors["tensor"], tensor.to(wanted))


@pytest.mark.usefixtures("_small_pieces")
def test_only_planned_tensors_are_kept(tmp_path: Path) -> None:
    tensors = {f"t{index}": torch.randn(37, index + 1) for index in range(6)}
    file = write(tmp_path / "a.safetensors", **tensors)
    wanted = {name: tensors[name] for name in ("t1", "t4")}
    loaded, _ = load(plan_of(torch.float32, **wanted), file)
    assert loaded.keys() == wanted.keys()
    assert all(torch.equal(loaded[name], wanted[name]) for name in wanted)


@pytest.mark.usefixtures("_small_pieces")
def test_the_digest_covers_every_byte_of_every_file(tmp_path: Path) -> None:
    kept, skipped = torch.randn(50), torch.randn(50)
    files = [
        write(tmp_path / "a.safetensors", kept=kept, skipped=skipped),
        write(tmp_path / "b.safetensors", more=skipped),
    ]
    _, digest = load(plan_of(torch.float32, kept=kept), *files)
    parts = [hashlib.sha256(file.path.read_bytes()).digest() for file in files]
    assert digest == hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.mark.usefixtures("_small_pieces")
def test_progress_adds_up_to_the_size_of_the_files(tmp_path: Path) -> None:
    tensor = torch.randn(100)
    files = tuple(write(tmp_path / f"{name}.safetensors", **{name: tensor}) for name in "ab")
    steps: list[int] = []
    read(plan_of(torch.float32, a=tensor, b=tensor), *files, advance=steps.append)
    assert sum(steps) == sum(file.num_bytes for file in files)
    assert len(steps) >= 2 * 400 // 64


@pytest.mark.usefixtures("_small_pieces")
def test_a_cancelled_load_stops_at_once(tmp_path: Path) -> None:
    tensor = torch.randn(1000)
    file = write(tmp_path / "a.safetensors", tensor=tensor)
    seen: list[int] = []

    def advance(num_bytes: int) -> None:
        seen.append(num_bytes)
        if len(seen) == 5:
            raise RequestCancelled("The load was stopped.")

    with pytest.raises(RequestCancelled):
        read(plan_of(torch.float32, tensor=tensor), file, advance=advance)
    assert len(seen) == 5
    assert not any(each.name.startswith("digest") for each in threading.enumerate())


def test_a_file_cut_short_after_the_check_is_broken(tmp_path: Path) -> None:
    tensor = torch.randn(1000)
    file = write(tmp_path / "a.safetensors", tensor=tensor)
    with file.path.open("r+b") as opened:
        opened.truncate(file.num_bytes - 100)
    with pytest.raises(BrokenWeightsError, match=r"a\.safetensors changed"):
        load(plan_of(torch.float32, tensor=tensor), file)


def test_a_file_that_grew_after_the_check_is_broken(tmp_path: Path) -> None:
    tensor = torch.randn(10)
    file = write(tmp_path / "a.safetensors", tensor=tensor)
    with file.path.open("ab") as opened:
        opened.write(b"x")
    with pytest.raises(BrokenWeightsError, match="changed"):
        load(plan_of(torch.float32, tensor=tensor), file)


def test_another_header_after_the_check_is_broken(tmp_path: Path) -> None:
    tensor = torch.randn(10)
    file = write(tmp_path / "a.safetensors", tensor=tensor)
    write(tmp_path / "a.safetensors", tensop=tensor)
    with pytest.raises(BrokenWeightsError, match="changed"):
        load(plan_of(torch.float32, tensor=tensor), file)


@pytest.mark.parametrize(
    ("stored", "planned", "error", "words"),
    [
        ({}, (2,), MissingTensorError, "tensor is in none"),
        (torch.ones(2, 3), (3, 2), WrongShapeError, r"tensor should be \[3, 2\] .* \[2, 3\]"),
        (torch.ones(2, dtype=torch.uint8), (2,), UnsupportedDeviceError, "U8"),
    ],
)
def test_a_tensor_unlike_the_plan_is_named(
    tmp_path: Path, stored: Any, planned: tuple[int, ...], error: type[WaymarkError], words: str
) -> None:
    tensors = {"tensor": stored} if isinstance(stored, Tensor) else {"other": torch.ones(1)}
    file = write(tmp_path / "a.safetensors", **tensors)
    with pytest.raises(error, match=words):
        check_plain("tensor", TensorSpec(planned, torch.float32), file.tensors.get("tensor"))


def test_an_allocation_that_fails_has_a_name() -> None:
    with pytest.raises(NotEnoughMemoryError):
        allocate((2**48,), torch.float32)


def test_tensors_lie_on_64_byte_borders(tmp_path: Path) -> None:
    tensors = {f"t{index}": torch.randn(3 + index) for index in range(8)}
    loaded, _ = load(
        plan_of(torch.float32, **tensors), write(tmp_path / "a.safetensors", **tensors)
    )
    assert all(tensor.data_ptr() % 64 == 0 for tensor in loaded.values())


FORMATS = [
    pytest.param(PLAIN, id="plain"),
    pytest.param(WeightFormats(Int8Format(None), PlainFormat()), id="int8"),
    pytest.param(
        WeightFormats(Int4Format(False), PlainFormat(), rows_from_file=True), id="int4, from file"
    ),
]


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("formats", FORMATS)
@pytest.mark.parametrize("rows_a_slice", [1, 3, 1000])
def test_matrices_are_held_in_their_form_whatever_they_are_cut_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formats: WeightFormats, rows_a_slice: int
) -> None:
    monkeypatch.setattr(specs, "SLICE_BYTES", 4 * 32 * rows_a_slice)
    monkeypatch.setattr(specs, "SLICE_ROWS", 1)
    tensors = {name: torch.randn(11, 32) for name in ("usual", "exact", "tied", "looked_up")}
    file = write(tmp_path / "a.safetensors", **tensors)
    uses = {
        "usual": TensorSpec((11, 32), torch.float32, Use.MATRIX),
        "exact": TensorSpec((11, 32), torch.float32, Use.MATRIX, exact=True),
        "tied": TensorSpec((11, 32), torch.float32, Use.MATRIX | Use.TABLE),
        "looked_up": TensorSpec((11, 32), torch.float32, Use.TABLE),
    }
    weights, _ = read(uses, file, formats=formats)
    for name in ("usual", "exact", "tied"):
        weight_format = formats.of(uses[name].exact)
        expected = weight_format.quantise(tensors[name])
        slices = weights.matrix(name, uses[name])
        assert isinstance(slices, list)
        for parts, whole in zip(zip(*slices, strict=True), expected, strict=True):
            assert torch.equal(torch.cat(parts), whole)
        sliced = not weight_format.is_plain and (name == "usual" or formats.rows_from_file)
        if sliced and rows_a_slice == 3:
            assert [len(kept[0]) for kept in slices] == [3, 3, 3, 2]
    for name in ("tied", "looked_up"):
        table = weights.table(name, uses[name])
        assert isinstance(table, FileTable) == formats.rows_from_file
        assert torch.equal(table(torch.tensor([10, 0, 0])), tensors[name][[10, 0, 0]])
    assert not (weights.tensors or weights.matrices or weights.tables)


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("formats", FORMATS)
def test_a_stack_with_inputs_first_is_transposed_and_reckoned_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formats: WeightFormats
) -> None:
    monkeypatch.setattr(specs, "SLICE_BYTES", 4 * 32 * 10)  # two of five matrices at a time
    stored = torch.randn(5, 32, 5)
    file = write(tmp_path / "a.safetensors", experts=stored)
    spec = TensorSpec((25, 32), torch.float32, Use.MATRIX, stack=5, transposed=True)
    check_plain("experts", spec, file.tensors["experts"])
    weights, _ = read({"experts": spec}, file, formats=formats)
    slices = weights.matrix("experts", spec)
    assert isinstance(slices, list)
    assert [len(kept[0]) for kept in slices] == [10, 10, 5]
    expected = formats.usual.quantise(stored.transpose(1, 2).reshape(25, 32))
    for parts, whole in zip(zip(*slices, strict=True), expected, strict=True):
        assert torch.equal(torch.cat(parts), whole)
    twice = 1 if formats.usual.is_plain else 2
    assert bytes_to_read(spec, formats) == twice * 4 * 32 * 10


@pytest.mark.usefixtures("_small_pieces")
def test_a_slice_is_gone_before_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them at a time were the most that a load in int4 took."""
    monkeypatch.setattr(specs, "SLICE_BYTES", 4 * 32 * 3)
    monkeypatch.setattr(specs, "SLICE_ROWS", 1)
    seen: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    class Watching(Int8Format):
        def quantise(self, weight: Tensor) -> QuantisedTensors:
            seen.append(weakref.ref(weight))
            return super().quantise(weight)

    tensor = torch.randn(11, 32)
    file = write(tmp_path / "a.safetensors", tensor=tensor)
    plan = {"tensor": TensorSpec((11, 32), torch.float32, Use.MATRIX)}

    def look(*_: int) -> None:
        alive.append(sum(each() is not None for each in seen))

    read(plan, file, formats=WeightFormats(Watching(None), PlainFormat()), advance=look)
    assert len(seen) == 4 and not any(alive)


@pytest.mark.parametrize("formats", FORMATS)
def test_the_digest_does_not_depend_on_what_is_held(tmp_path: Path, formats: WeightFormats) -> None:
    tensor = torch.randn(4, 32)
    file = write(tmp_path / "a.safetensors", tensor=tensor)
    plan = {"tensor": TensorSpec((4, 32), torch.float32, Use.TABLE)}
    _, digest = read(plan, file, formats=formats)
    assert digest == load(plan_of(torch.float32, tensor=tensor), file)[1]
