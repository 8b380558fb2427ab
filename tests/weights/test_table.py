"""Rows that stay in the weights file: the right ones, as long as the file is what it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError
from core.weights.table import FileTable, HeldTable

BEFORE = b"header and other tensors"


def write(path: Path, rows: Tensor) -> Path:
    octets = rows.contiguous().view(torch.uint8).numpy().tobytes()
    path.write_bytes(BEFORE + octets + b"others")
    return path


def table_of(path: Path, rows: Tensor, dtype: torch.dtype = torch.float32) -> FileTable:
    with path.open("rb", buffering=0) as file:
        shape = (rows.shape[0], rows.shape[1])
        return FileTable(file, len(BEFORE), shape, rows.dtype, dtype)


@pytest.mark.parametrize("ids", [[], [0], [6], [3, 3, 0, 6, 1], list(range(7))], ids=str)
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_are_those_of_the_table_in_memory(
    tmp_path: Path, stored: torch.dtype, ids: list[int]
) -> None:
    rows = torch.randn(7, 5).to(stored)
    path = write(tmp_path / "w", rows)
    wanted = torch.tensor(ids, dtype=torch.long)
    found = table_of(path, rows, torch.bfloat16)(wanted)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, HeldTable(rows.to(torch.bfloat16))(wanted))


@pytest.mark.parametrize("number", [-1, 7, 2**40])
def test_a_row_that_is_none_is_refused(tmp_path: Path, number: int) -> None:
    """Other tensors are before and after the table."""
    rows = torch.randn(7, 5)
    table = table_of(write(tmp_path / "w", rows), rows)
    with pytest.raises(IndexError, match=str(number)):
        table(torch.tensor([0, number]))


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps open files from going")
def test_the_file_may_be_moved_and_deleted(tmp_path: Path) -> None:
    rows = torch.randn(7, 5)
    path = write(tmp_path / "w", rows)
    table = table_of(path, rows)
    path.rename(tmp_path / "elsewhere")
    assert torch.equal(table(torch.tensor([2])), rows[2:3])
    (tmp_path / "elsewhere").unlink()
    assert torch.equal(table(torch.tensor([4])), rows[4:5])


@pytest.mark.parametrize("size", [0, len(BEFORE) + 30, None])
def test_a_file_that_was_written_to_is_not_trusted(tmp_path: Path, size: int | None) -> None:
    """Cut short at its beginning, within the row, or rewritten with other numbers."""
    rows = torch.randn(7, 5)
    path = write(tmp_path / "w", rows)
    table = table_of(path, rows)
    if size is None:
        write(path, rows + 1)
        os.utime(path, ns=(1, 1))  # clocks of file systems may be coarse
    else:
        os.truncate(path, size)
    with pytest.raises(BrokenWeightsError, match="changed after the model was loaded"):
        table(torch.tensor([1]))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_the_file_is_closed_with_the_table(tmp_path: Path) -> None:
    rows = torch.randn(7, 5)
    path = write(tmp_path / "w", rows)
    table = table_of(path, rows)
    assert is_open(path)
    del table
    assert not is_open(path)


def is_open(path: Path) -> bool:
    links = Path("/proc/self/fd").iterdir()
    return any(link.is_symlink() and os.readlink(link) == str(path) for link in links)
