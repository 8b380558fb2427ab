"""Mutants of what we kept ourselves: contexts, quantised weights, tiles, and what was measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from core.api.model_info import HEADROOM_BYTES
from core.cache.disk.segment import (
    KEY_BYTES,
    Label,
    SegmentDamagedError,
    SegmentId,
    SegmentKind,
    pack,
    unpack,
)
from core.loading.files import open_files
from core.loading.model import ReadModel
from core.loading.plan import ModelPlan
from core.loading.precision import recalled
from core.loading.tile_file import TILE_NOTES
from core.storage.rows import TILES
from core.storage.store import DiskStore
from core.weights.published.folder import ModelFolder
from kernels.dispatch import backend
from tests.gguf.conftest import ConvertedOf, converted, converter
from tests.gguf.rewriting import rewrite
from tests.gguf.test_published import SMALL, mixed
from tests.hostile.counts import each_of
from tests.hostile.mutation import mutated_bytes
from tests.hostile.watch import opened_elsewhere
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.loading.keeping import WRITTEN_NS, kept_in, settle, store_in
from tests.loads import load_model
from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.runs import our_logits, text

__all__ = ["converted", "converter"]

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def opens_nothing_elsewhere(tmp_path: Path) -> Iterator[None]:
    with opened_elsewhere(tmp_path) as found:
        yield
    assert found == []


@each_of(2_000)
def test_mutants_of_contexts_are_damage_or_what_was_stored(seeds: range) -> None:
    name = SegmentId(SegmentKind.STATE, bytes(KEY_BYTES))
    label = Label(bytes(32), name, bytes(KEY_BYTES))
    tensors = {"a": torch.randn(3, 5), "b": torch.randn(4, 2).bfloat16(), "c": torch.zeros(0, 3)}
    raw = b"".join(bytes(part) for part in pack(label, tensors).parts())
    damaged = 0
    for seed in seeds:
        try:
            found = unpack(label, bytearray(mutated_bytes(raw, seed)))
        except SegmentDamagedError:
            damaged += 1
            continue
        assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert damaged > 0


@each_of(1_000)
def test_mutants_of_quantised_weights_change_no_bit_of_the_model(
    tmp_path: Path, seeds: range
) -> None:
    folder = tmp_path / "model"
    write_folder(folder, Tiny(layers="L", text_only=True, vision=False))
    settle(folder)
    store = store_in(tmp_path / "weights")
    kernels = backend("reference", torch.float32, integers="int8")

    def load() -> ReadModel:
        return load_model(
            ModelFolder.open(folder), CPU, torch.float32, kernels=kernels, store=store
        )

    def logits(loaded: ReadModel) -> torch.Tensor:
        with torch.inference_mode():
            return our_logits(loaded.model, [text(3)])

    expected = logits(load())
    (path,) = kept_in(store)
    whole, anew = path.read_bytes(), 0
    for seed in seeds:
        path.write_bytes(mutated_bytes(whole, seed))
        loaded = load()
        anew += not loaded.from_disk
        assert torch.equal(logits(loaded), expected)
    assert anew > 0


@pytest.fixture(scope="module")
def blocks(converted: ConvertedOf, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A GGUF file, made before files are watched."""
    target = tmp_path_factory.mktemp("blocks") / "model.gguf"
    return rewrite(converted("qwen35moe").file, target, mixed(SMALL)).read_bytes()


@NEEDS_COMPILER
@each_of(600)
def test_G3_mutants_of_mapped_tiles_and_their_note_change_no_bit_of_the_model(
    blocks: bytes, tmp_path: Path, seeds: range
) -> None:
    """Even if size and time are those of the tiles."""
    file, store, damaged = tmp_path / "model.gguf", store_in(tmp_path / "store"), 0
    file.write_bytes(blocks)
    os.utime(file, ns=(WRITTEN_NS, WRITTEN_NS))
    kernels = backend("cpu", torch.bfloat16, library=library(), published=True)
    plan = ModelPlan(open_files(file).container).held(torch.bfloat16, kernels)
    room = plan.num_bytes - plan.mapped_bytes + HEADROOM_BYTES

    def load() -> tuple[bool, torch.Tensor]:
        loaded = load_model(
            open_files(file).container, CPU, torch.bfloat16, kernels=kernels, store=store,
            available=lambda device: room,
        )  # fmt: skip
        assert loaded.mapped_bytes == plan.mapped_bytes
        return loaded.from_disk, our_logits(loaded.model, [text(3)])

    _, expected = load()
    (path,) = (tmp_path / "store" / TILES).glob("*")
    whole = path.read_bytes()
    for seed in seeds:
        if seed % 3 == 0:
            note = store.blobs.note(TILE_NOTES, path.name) or ""
            mutant = mutated_bytes(note.encode(), seed).decode("latin-1")
            store.blobs.write_note(TILE_NOTES, path.name, mutant)
        else:
            when = path.stat().st_mtime_ns
            path.unlink()  # an older model may have it mapped
            path.write_bytes(mutated_bytes(whole, seed, most=1 + seed % 3))
            os.utime(path, ns=(when, when))
        from_disk, logits = load()
        assert torch.equal(logits, expected) and path.read_bytes() == whole
        damaged += not from_disk
    assert damaged > len(seeds) / 2


@each_of(1_000)
def test_mutants_of_what_was_measured_are_measured_anew_or_believed_as_text(
    tmp_path: Path, seeds: range
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
    for seed in seeds:
        path.write_bytes(mutated_bytes(whole, seed))
        assert isinstance(found(), str)
