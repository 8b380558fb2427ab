"""Files of quantised matrices: what was written comes back to the bit, or not at all."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from core.loading.quantised_file import (
    QuantisedDamagedError,
    QuantisedFile,
    QuantisedLayout,
    QuantisedWriter,
)
from core.storage.files import Space
from core.storage.rows import WEIGHTS
from core.storage.store import DiskStore
from core.weights import spec as specs
from core.weights.spec import TensorSpec, Use, WeightPlan
from kernels.linear.int4 import Int4Format
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import PlainFormat, QuantisedTensors, WeightFormat, WeightFormats
from tests.storage.disks import PLENTY, FailingFiles, RoomyFiles

KEY = "ab" * 32
FORMATS = [pytest.param(Int8Format(None), id="int8"), pytest.param(Int4Format(False), id="int4")]


def plan() -> WeightPlan:
    spec = TensorSpec((11, 33), torch.float32, Use.MATRIX)
    return {
        "first": spec,
        "exact": TensorSpec((4, 32), torch.float32, Use.MATRIX, exact=True),
        "norm": TensorSpec((32,), torch.float32),
        "second": TensorSpec((5, 64), torch.float32, Use.MATRIX | Use.TABLE),
    }


def layout_of(weight_format: WeightFormat) -> QuantisedLayout:
    return QuantisedLayout(
        plan(), WeightFormats(weight_format, PlainFormat(), rows_from_file=True), {}
    )


def matrices(
    weight_format: WeightFormat, layout: QuantisedLayout
) -> dict[str, list[QuantisedTensors]]:
    """Quantised random weights, in the slices of the layout."""
    generator = torch.Generator().manual_seed(3)
    found = {}
    for name, slices in layout.matrices.items():
        rows = [parts[0].shape[0] for parts in slices]
        weight = torch.randn(plan()[name].shape, generator=generator)
        found[name] = [weight_format.quantise(each) for each in torch.split(weight, rows)]
    return found


def written(
    path: Path, weight_format: WeightFormat
) -> tuple[QuantisedLayout, dict[str, list[QuantisedTensors]]]:
    layout = layout_of(weight_format)
    given = matrices(weight_format, layout)
    writer, blobs = writer_in(path.parent, layout)
    keep_all(writer, given)
    assert writer.finish(KEY)
    blobs.part(WEIGHTS).rename(path)
    return layout, given


def writer_in(
    folder: Path, layout: QuantisedLayout, files: RoomyFiles | None = None
) -> tuple[QuantisedWriter, DiskStore]:
    blobs = DiskStore(folder, 0, files or RoomyFiles())
    blobs.files.make_folder(folder / WEIGHTS)
    return QuantisedWriter(blobs, layout, []), blobs


def keep_all(writer: QuantisedWriter, given: dict[str, list[QuantisedTensors]]) -> None:
    for name in reversed(given):  # in the order of the weights file, which is its own
        for kept in given[name]:
            writer.keep(name, kept)


def left(blobs: DiskStore) -> list[str]:
    return [path.name for path in (blobs.folder / WEIGHTS).iterdir()]


def same(found: list[QuantisedTensors], given: list[QuantisedTensors]) -> bool:
    pairs = zip(found, given, strict=True)
    return all(
        one.dtype == other.dtype and torch.equal(one, other)
        for ones, others in pairs
        for one, other in zip(ones, others, strict=True)
    )


@pytest.fixture(autouse=True)
def _slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix of 11 rows is taken in slices."""
    monkeypatch.setattr(specs, "SLICE_BYTES", 4 * 33 * 4)
    monkeypatch.setattr(specs, "SLICE_ROWS", 1)


@pytest.mark.parametrize("weight_format", FORMATS)
def test_matrices_come_back_to_the_bit(tmp_path: Path, weight_format: WeightFormat) -> None:
    path = tmp_path / "kept.safetensors"
    layout, given = written(path, weight_format)
    assert layout.matrices.keys() == {"first", "second"} and len(layout.matrices["first"]) == 3
    file = QuantisedFile(path, layout, KEY)
    advanced: list[int] = []
    file.advance = advanced.append
    assert all(same(file.matrix(name), given[name]) for name in given)
    file.close()
    assert sum(advanced) == layout.num_bytes - layout.data_start
    assert path.stat().st_size == layout.num_bytes


def test_a_large_matrix_is_read_in_pieces_that_can_be_stopped_between(tmp_path: Path) -> None:
    """`load_model` promises to look for a cancel every 4 MiB."""
    weight_format = Int8Format(None)
    spec = TensorSpec((1, 5 * 2**20), torch.float32, Use.MATRIX)
    layout = QuantisedLayout({"large": spec}, WeightFormats(weight_format, PlainFormat()), {})
    kept = (torch.ones(1, 5 * 2**20, dtype=torch.int8), torch.ones(1, 1))
    writer, blobs = writer_in(tmp_path, layout)
    writer.keep("large", kept)
    assert writer.finish(KEY)
    file = QuantisedFile(blobs.part(WEIGHTS), layout, KEY)
    advanced: list[int] = []
    file.advance = advanced.append
    assert same(file.matrix("large"), [kept])
    file.close()
    assert max(advanced) <= 4 * 2**20 < sum(advanced)


@pytest.mark.parametrize("weight_format", FORMATS)
def test_every_byte_counts(tmp_path: Path, weight_format: WeightFormat) -> None:
    path = tmp_path / "kept.safetensors"
    layout, given = written(path, weight_format)
    whole = path.read_bytes()
    spoilt = 0
    for at in {*range(0, len(whole), 41), *range(8), layout.data_start, len(whole) - 1}:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        spoilt += fails(path, layout, list(given))
    assert spoilt == len({*range(0, len(whole), 41), *range(8), layout.data_start, len(whole) - 1})


def fails(path: Path, layout: QuantisedLayout, names: list[str]) -> bool:
    """True if opening or reading the file finds damage."""
    try:
        file = QuantisedFile(path, layout, KEY)
    except QuantisedDamagedError:
        return True
    try:
        for name in names:
            file.matrix(name)
    except QuantisedDamagedError:
        return True
    finally:
        file.close()
    return False


def test_a_file_that_is_cut_short_or_too_long_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "kept.safetensors"
    layout, _ = written(path, Int8Format(None))
    whole = path.read_bytes()
    for spoilt in (b"", whole[:5], whole[: layout.data_start], whole[:-1], whole + b"x"):
        path.write_bytes(spoilt)
        with pytest.raises(QuantisedDamagedError, match="bytes"):
            QuantisedFile(path, layout, KEY)


def test_a_file_cut_short_while_it_is_read_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "kept.safetensors"
    layout, _ = written(path, Int8Format(None))
    file = QuantisedFile(path, layout, KEY)
    with path.open("r+b") as opened:
        opened.truncate(layout.data_start + 3)
    with pytest.raises(QuantisedDamagedError, match="can't be read"):
        file.matrix("second")
    file.close()


def test_a_file_of_others_is_damage(tmp_path: Path) -> None:
    """Of another key, or of matrices of the same sizes by other names."""
    path = tmp_path / "kept.safetensors"
    layout, _ = written(path, Int8Format(None))
    with pytest.raises(QuantisedDamagedError, match="header"):
        QuantisedFile(path, layout, "cd" * 32)
    renamed = {("tsrif" if name == "first" else name): spec for name, spec in plan().items()}
    other = QuantisedLayout(
        renamed, WeightFormats(Int8Format(None), PlainFormat(), rows_from_file=True), {}
    )
    assert other.num_bytes == layout.num_bytes
    with pytest.raises(QuantisedDamagedError, match="header"):
        QuantisedFile(path, other, KEY)


def test_what_is_not_whole_is_not_left(tmp_path: Path) -> None:
    layout = layout_of(Int8Format(None))
    writer, blobs = writer_in(tmp_path, layout)
    writer.keep("second", matrices(Int8Format(None), layout)["second"][0])
    writer._behind.wait()
    assert left(blobs) and not writer.finish(KEY) and not left(blobs)


def test_a_slow_disk_holds_up_no_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, ready, write = layout_of(Int8Format(None)), threading.Event(), DiskStore.write_part
    writer, blobs = writer_in(tmp_path, layout)
    given = matrices(Int8Format(None), layout)

    def slow(*written: Any) -> None:
        assert ready.wait(5)
        write(*written)

    monkeypatch.setattr(DiskStore, "write_part", slow)
    writer.keep("second", given["second"].pop(0))
    assert not left(blobs)
    ready.set()
    keep_all(writer, given)
    assert writer.finish(KEY)


def test_a_load_that_ends_early_writes_no_more_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, began, wrote = layout_of(Int8Format(None)), threading.Event(), list[int]()
    writer, blobs = writer_in(tmp_path, layout)
    given = matrices(Int8Format(None), layout)

    def slow(*written: Any) -> None:
        began.set()
        time.sleep(0.1)
        wrote.append(1)

    monkeypatch.setattr(DiskStore, "write_part", slow)
    writer.keep("second", given["second"][0])
    assert began.wait(5)
    writer.keep("first", given["first"][0])
    writer.drop()
    assert len(wrote) == len(given["second"][0]) and not left(blobs)


def test_a_matrix_of_another_shape_ends_the_writing(tmp_path: Path) -> None:
    writer, blobs = writer_in(tmp_path, layout_of(Int8Format(None)))
    writer.keep("second", (torch.zeros(5, 63, dtype=torch.int8), torch.zeros(5, 1)))
    assert "another shape" in writer.trouble
    assert not writer.finish(KEY) and not left(blobs)


@pytest.mark.parametrize("fails_at", range(1, 13))
def test_a_disk_that_fails_at_any_step_leaves_nothing(tmp_path: Path, fails_at: int) -> None:
    layout, files = layout_of(Int8Format(None)), FailingFiles()
    writer, blobs = writer_in(tmp_path, layout, files)
    files.fail_at = files.num_steps + fails_at
    keep_all(writer, matrices(Int8Format(None), layout))
    finished = writer.finish(KEY)
    assert bool(left(blobs)) == finished == (not writer.trouble)


def test_a_disk_that_fills_up_ends_the_writing(tmp_path: Path) -> None:
    layout, files = layout_of(Int8Format(None)), RoomyFiles()
    writer, blobs = writer_in(tmp_path, layout, files)
    first, *others = matrices(Int8Format(None), layout)["first"]
    writer.keep("first", first)
    writer._behind.wait()
    assert not writer.trouble and left(blobs)
    files.space = Space(1, PLENTY)
    writer.keep("first", others[0])
    writer._behind.wait()
    assert "too full" in writer.trouble and not left(blobs)
