"""The digests of weights files are remembered for the very files that were read."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from core.loading.quantised_store import (
    SETTLED_NS,
    Facts,
    are_settled,
    delete_quantised,
    facts_of,
    known_digest,
    remember_digest,
)
from core.storage.store import DiskStore
from core.weights.safetensors_file import read_header
from tests.loading.keeping import WRITTEN_NS, settle
from tests.storage.disks import FailingFiles, RoomyFiles

DIGEST = "5a" * 32


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"t": torch.zeros(8)}, folder / "a.safetensors")
    save_file({"u": torch.zeros(8)}, folder / "b.safetensors")
    settle(folder)
    return folder


def facts(folder: Path) -> Facts:
    return facts_of(tuple(read_header(path) for path in sorted(folder.iterdir())))


def notes(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "known", 0, RoomyFiles())


def test_files_are_known_again(tmp_path: Path, weights: Path) -> None:
    assert known_digest(notes(tmp_path), facts(weights)) is None
    remember_digest(notes(tmp_path), facts(weights), DIGEST)
    assert known_digest(notes(tmp_path), facts(weights)) == DIGEST
    assert known_digest(notes(tmp_path), facts(weights)[:1]) is None


@pytest.mark.parametrize("restored", [False, True])
def test_a_file_written_to_is_another(tmp_path: Path, weights: Path, restored: bool) -> None:
    """Also where its time of writing was set back: its time of change can't be."""
    remember_digest(notes(tmp_path), facts(weights), DIGEST)
    time.sleep(0.02)  # a step of the file system's clock
    with (weights / "b.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\1")
    if restored:
        settle(weights)
    if restored and os.name == "nt":
        pytest.skip("Windows has no time of change")
    assert known_digest(notes(tmp_path), facts(weights)) is None


def test_a_file_of_another_size_or_header_is_another(tmp_path: Path, weights: Path) -> None:
    remember_digest(notes(tmp_path), facts(weights), DIGEST)
    save_file({"v": torch.zeros(8)}, weights / "b.safetensors")
    settle(weights)
    assert known_digest(notes(tmp_path), facts(weights)) is None


def test_files_are_settled_two_seconds_after_the_last_was_written(weights: Path) -> None:
    os.utime(weights / "a.safetensors", ns=(WRITTEN_NS - 5, WRITTEN_NS - 5))
    assert are_settled(facts(weights), WRITTEN_NS + SETTLED_NS)
    assert not are_settled(facts(weights), WRITTEN_NS + SETTLED_NS - 1)
    assert not are_settled(facts(weights), WRITTEN_NS - 10**18)  # a clock that was put back
    assert not are_settled([], WRITTEN_NS)


def test_the_same_paths_have_one_digest(tmp_path: Path, weights: Path) -> None:
    before = facts(weights)
    remember_digest(notes(tmp_path), before, DIGEST)
    settle(weights, WRITTEN_NS - 10**10)
    remember_digest(notes(tmp_path), facts(weights), "6b" * 32)
    assert known_digest(notes(tmp_path), facts(weights)) == "6b" * 32
    assert known_digest(notes(tmp_path), before) is None


def test_a_disk_that_refuses_is_no_error(tmp_path: Path, weights: Path) -> None:
    files = FailingFiles()
    blobs = DiskStore(tmp_path / "known", 0, files)
    files.fail_at = files.num_steps + 1
    remember_digest(blobs, facts(weights), DIGEST)
    assert known_digest(notes(tmp_path), facts(weights)) is None


def test_all_can_be_forgotten_and_nothing_of_it_lingers(tmp_path: Path, weights: Path) -> None:
    remember_digest(notes(tmp_path), facts(weights), DIGEST)
    blobs = DiskStore(tmp_path / "known", 0, RoomyFiles())
    delete_quantised(blobs)
    assert known_digest(notes(tmp_path), facts(weights)) is None
    for path in (tmp_path / "known").iterdir():
        assert str(weights).encode() not in path.read_bytes()


@pytest.mark.parametrize(
    "damaged", ["", "{", "[", "7", "[1]", "null", '[[["a"]], 5]', '[[["a"]], "xy"]', "[" * 5000]
)
def test_a_damaged_note_costs_a_reading_of_the_weights(tmp_path: Path, damaged: str) -> None:
    """Bits of a note that flipped are not noticed by the store."""
    asked: Any = [["a"]]
    blobs = DiskStore(tmp_path, 0, RoomyFiles())
    blobs.write_note("weights files", '["a"]', damaged)
    assert known_digest(blobs, asked) is None
