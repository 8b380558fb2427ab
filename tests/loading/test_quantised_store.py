"""Quantised matrices on disk: found for unchanged weights files only, evicted, never an error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from core.api.errors import NotDeletedError
from core.loading.quantised_file import QuantisedLayout
from core.loading.quantised_store import (
    SETTLED_NS,
    QuantisedStore,
    delete_quantised,
)
from core.storage.rows import WEIGHTS
from core.storage.store import FLOOR_SHARE
from core.weights.published.folder import ModelFolder
from core.weights.safetensors_file import read_header
from core.weights.spec import TensorSpec, Use
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import PlainFormat, WeightFormats
from tests.loading.keeping import WRITTEN_NS, kept_in, settle, store_in
from tests.storage.disks import PLENTY, FailingFiles, RoomyFiles

FORMAT = Int8Format(None)
DIGEST = "5a" * 32
MEANINGS = "abcd"


def layout(rows: int = 64) -> QuantisedLayout:
    spec = TensorSpec((rows, 32), torch.float32, Use.MATRIX)
    return QuantisedLayout({"weight": spec}, WeightFormats(FORMAT, PlainFormat()), {})


SIZE = layout().num_bytes
# A disk with so many bytes free counts as full.
FULL = PLENTY // FLOOR_SHARE


@pytest.fixture
def weights(tmp_path: Path) -> ModelFolder:
    (tmp_path / "model").mkdir()
    save_file({"t": torch.zeros(8)}, tmp_path / "model" / "a.safetensors")
    save_file({"u": torch.zeros(8)}, tmp_path / "model" / "b.safetensors")
    settle(tmp_path / "model")
    return opened(tmp_path)


def opened(tmp_path: Path) -> ModelFolder:
    paths = sorted((tmp_path / "model").iterdir())
    return ModelFolder(tmp_path, {}, tuple(read_header(path) for path in paths))


def put(store: QuantisedStore, weights: ModelFolder, meaning: str = "a", rows: int = 64) -> bool:
    """Keep a matrix; returns whether it was started."""
    writer = store.begin(weights, layout(rows))
    if writer is not None:
        writer.keep("weight", FORMAT.quantise(torch.ones(rows, 32)))
        store.finish(writer, weights, DIGEST, meaning)
    return writer is not None


def has(store: QuantisedStore, weights: ModelFolder, meaning: str = "a") -> bool:
    """True if there is a whole file; counts as a use."""
    found = store.find(weights, meaning, layout())
    if found is not None:
        assert found[1] == DIGEST and len(found[0].matrix("weight")) == 1
        found[0].close()
    return found is not None


def held(store: QuantisedStore) -> str:
    """The meanings that have a file; "?" stands for any other file."""
    names = {f"{store._key(DIGEST, meaning)}.safetensors": meaning for meaning in MEANINGS}
    return "".join(sorted(names.get(path.name, "?") for path in kept_in(store)))


# -- which files are recognised


def rewritten(model: Path) -> None:
    time.sleep(0.02)  # a step of the file system's clock
    with (model / "b.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\1")


def rewritten_and_dated_back(model: Path) -> None:
    if os.name == "nt":
        pytest.skip("Windows has no time of change")
    rewritten(model)
    settle(model)


def with_another_header(model: Path) -> None:
    save_file({"v": torch.zeros(8)}, model / "b.safetensors")
    settle(model)


@pytest.mark.parametrize(
    "change",
    [
        rewritten,
        rewritten_and_dated_back,
        with_another_header,
        lambda model: (model / "b.safetensors").unlink(),
    ],
)
def test_only_unchanged_files_are_recognised(
    tmp_path: Path, weights: ModelFolder, change: Callable[[Path], None]
) -> None:
    put(store_in(tmp_path / "kept"), weights)
    store = store_in(tmp_path / "kept")
    assert has(store, opened(tmp_path)) and not has(
        store, ModelFolder(tmp_path, {}, weights.files[:1])
    )
    change(tmp_path / "model")
    assert not has(store, weights) and not has(store, opened(tmp_path))
    assert store.known_digest(opened(tmp_path)) is None


@pytest.mark.parametrize(
    ("passed", "kept"), [(SETTLED_NS, True), (SETTLED_NS - 1, False), (-(10**15), False)]
)
def test_files_written_a_moment_ago_are_not_kept(
    tmp_path: Path, weights: ModelFolder, passed: int, kept: bool
) -> None:
    """Two seconds after the last was written, or where the clock was put back."""
    os.utime(tmp_path / "model" / "a.safetensors", ns=(WRITTEN_NS - 5, WRITTEN_NS - 5))
    files = FailingFiles()
    store = store_in(tmp_path / "kept", files=files, clock=lambda: WRITTEN_NS + passed)
    before = files.num_steps
    assert put(store, weights) == has(store, weights) == (files.num_steps > before) == kept
    assert not put(store, ModelFolder(tmp_path, {}, ()))


def test_the_same_paths_have_one_digest(tmp_path: Path, weights: ModelFolder) -> None:
    store, before = store_in(tmp_path / "kept"), weights.facts()
    store.remember_digest(before, DIGEST)
    settle(tmp_path / "model", WRITTEN_NS - 10**10)
    assert store.known_digest(weights) is None
    store.remember_digest(weights.facts(), "6b" * 32)
    assert store.known_digest(weights) == "6b" * 32


@pytest.mark.parametrize("noted", ["", "{", "[", "7", "[1]", "null", "[{}, 5]", '[{}, "xy"]'])
def test_a_damaged_note_is_no_digest(tmp_path: Path, weights: ModelFolder, noted: str) -> None:
    store = store_in(tmp_path / "kept")
    put(store, weights)
    paths = [str(file.path.resolve()) for file in weights.files]
    key = f'["{paths[0]}", "{paths[1]}"]'
    assert store.blobs.note("weights files", key) is not None
    facts = str(weights.facts()).replace("'", '"')
    for value in (noted.replace("{}", facts), "[" * 5000):
        store.blobs.write_note("weights files", key, value)
        assert store.known_digest(weights) is None


# -- room, failures and deletion


def test_nothing_is_kept_in_a_folder_that_can_not_be_made(
    tmp_path: Path, weights: ModelFolder
) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    store = store_in(tmp_path / "file")
    assert store.num_bytes == 0 and not has(store, weights) and not put(store, weights)
    store.trim()
    store.blobs.forget(WEIGHTS)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_the_least_recently_used_goes_first(tmp_path: Path, weights: ModelFolder) -> None:
    store = store_in(tmp_path / "kept", cap=3 * SIZE)
    assert all(put(store, weights, meaning) for meaning in "abc") and has(store, weights)
    put(store, weights, "d")
    assert held(store) == "acd" and store.num_bytes == 3 * SIZE
    for cap, left in ((2 * SIZE + 1, "ad"), (0, "")):
        store_in(tmp_path / "kept", cap).trim()
        assert held(store) == left


@pytest.mark.parametrize(
    ("cap", "free", "words"),
    [(2 * SIZE - 1, PLENTY, "they take"), (0, PLENTY, ""), (PLENTY, FULL + SIZE, "GiB left")],
)
def test_a_file_without_room_evicts_nothing(
    tmp_path: Path,
    weights: ModelFolder,
    caplog: pytest.LogCaptureFixture,
    cap: int,
    free: int,
    words: str,
) -> None:
    put(store_in(tmp_path / "kept"), weights)
    store = store_in(tmp_path / "kept", cap, RoomyFiles(free))
    assert not put(store, weights, "b", rows=256)
    assert held(store) in ("a", "") and words in caplog.text
    assert free < PLENTY or held(store) == "a"


@pytest.mark.skipif(sys.platform == "win32", reason="links take rights there")
def test_nothing_is_written_through_a_link(tmp_path: Path, weights: ModelFolder) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    store = store_in(tmp_path / "kept")
    (tmp_path / "kept" / WEIGHTS).mkdir()
    (tmp_path / "kept" / WEIGHTS / ".new-blob").symlink_to(theirs)
    assert put(store, weights) and theirs.read_bytes() == b"theirs" and held(store) == "a"


def test_a_digest_that_can_not_be_noted_is_no_error(tmp_path: Path, weights: ModelFolder) -> None:
    files = FailingFiles()
    store = store_in(tmp_path / "kept", files=files)
    files.fail_at = files.num_steps + 1
    store.remember_digest(weights.facts(), DIGEST)
    assert store.known_digest(weights) is None


@pytest.mark.skipif(sys.platform == "win32", reason="open files stay there")
def test_a_file_in_use_is_deleted_and_stays_readable(tmp_path: Path, weights: ModelFolder) -> None:
    store = store_in(tmp_path / "kept")
    put(store, weights)
    found = store.find(weights, "a", layout())
    assert found is not None
    delete_quantised(store.blobs)
    assert held(store) == "" and len(found[0].matrix("weight")) == 1
    found[0].close()
    for path in (tmp_path / "kept").iterdir():
        assert str(weights.files[0].path).encode() not in path.read_bytes()


@pytest.mark.parametrize("step", range(1, 6))
def test_a_failed_deletion_is_reported_and_continued(
    tmp_path: Path, weights: ModelFolder, step: int
) -> None:
    files = FailingFiles()
    store = store_in(tmp_path / "kept", files=files)
    assert all(put(store, weights, meaning) for meaning in "ab")
    files.fail_at = files.num_steps + step
    with pytest.raises(NotDeletedError, match="can't be deleted: Input/output error"):
        delete_quantised(store.blobs)
    delete_quantised(store.blobs)
    assert held(store) == "" and store.num_bytes == 0
