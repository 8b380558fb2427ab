"""Mutants of what we kept ourselves: contexts, quantised weights, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from core.cache.disk.segment import (
    KEY_BYTES,
    Label,
    SegmentDamagedError,
    SegmentId,
    SegmentKind,
    pack,
    unpack,
)
from core.loading.model import ReadModel
from core.loading.precision import recalled
from core.storage.store import DiskStore
from core.weights.folder import ModelFolder
from kernels.dispatch import backend
from tests.hostile.counts import each_of
from tests.hostile.mutation import mutated_bytes
from tests.hostile.watch import opened_elsewhere
from tests.loading.keeping import kept_in, settle, store_in
from tests.loads import load_model
from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.runs import our_logits, text

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def opens_nothing_elsewhere(tmp_path: Path) -> Iterator[None]:
    with opened_elsewhere(tmp_path) as found:
        yield
    assert found == []


@each_of(2_000)
def test_mutants_of_contexts_are_damage_or_what_was_stored(count: int) -> None:
    name = SegmentId(SegmentKind.STATE, bytes(KEY_BYTES))
    label = Label(bytes(32), name, bytes(KEY_BYTES))
    tensors = {
        "a": torch.randn(3, 5),
        "b": torch.randn(4, 2).bfloat16(),
        "c": torch.zeros(0, 3),
    }
    raw = b"".join(bytes(part) for part in pack(label, tensors).parts())
    damaged = 0
    for seed in range(count):
        try:
            found = unpack(label, bytearray(mutated_bytes(raw, seed)))
        except SegmentDamagedError:
            damaged += 1
            continue
        assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert damaged > 0


@each_of(1_000)
def test_mutants_of_quantised_weights_change_no_bit_of_the_model(
    tmp_path: Path, count: int
) -> None:
    folder = tmp_path / "model"
    write_folder(folder, Tiny(layers="L", text_only=True, vision=False))
    settle(folder)
    store = store_in(tmp_path / "weights")
    kernels = backend("reference", torch.float32, integers="int8")

    def load() -> ReadModel:
        return load_model(
            ModelFolder.open(folder),
            CPU,
            torch.float32,
            kernels=kernels,
            store=store,
        )

    def logits(loaded: ReadModel) -> torch.Tensor:
        with torch.inference_mode():
            return our_logits(loaded.model, [text(3)])

    expected = logits(load())
    (path,) = kept_in(store)
    whole, anew = path.read_bytes(), 0
    for seed in range(count):
        path.write_bytes(mutated_bytes(whole, seed))
        loaded = load()
        anew += not loaded.from_disk
        assert torch.equal(logits(loaded), expected)
    assert anew > 0


@each_of(1_000)
def test_mutants_of_what_was_measured_are_measured_anew_or_believed_as_text(
    tmp_path: Path, count: int
) -> None:
    def found() -> str:
        notes = DiskStore(tmp_path)
        try:
            return recalled(notes, "a", lambda: "fine")
        finally:
            notes.close()

    assert found() == "fine"
    path = tmp_path / "index.db"
    whole = path.read_bytes()
    for seed in range(count):
        path.write_bytes(mutated_bytes(whole, seed))
        assert isinstance(found(), str)
