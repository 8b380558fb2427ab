"""Models of blocks that are larger than free memory: their tiles are in a file that is mapped."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, NotEnoughMemoryError, RequestCancelled
from core.api.model_info import HEADROOM_BYTES
from core.api.params import ModelSettings
from core.loading.files import open_files
from core.loading.model import ReadModel
from core.loading.plan import HeldPlan, ModelPlan
from core.loading.precision import PUBLISHED, choose_precision
from core.loading.quantised_store import QuantisedStore
from core.loading.tile_file import TileFile
from core.storage.rows import TILES
from core.weights.gguf_container import GGUFContainer
from kernels.common.memory import FileArena
from kernels.dispatch import Backend, backend
from kernels.experts import native
from kernels.linear.blocks import StoredRows
from tests.gguf.conftest import ConvertedOf
from tests.gguf.rewriting import rewrite
from tests.gguf.test_published import MODELS, SMALL, mixed
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.loading.keeping import WRITTEN_NS, store_in
from tests.loads import load_model
from tests.oracle.runs import CPU, our_logits, text

pytestmark = NEEDS_COMPILER


def kernels() -> Backend:
    return backend("cpu", torch.bfloat16, library=library(), published=True)


def plan_of(file: Path) -> HeldPlan:
    return ModelPlan(open_files(file).container).held(torch.bfloat16, kernels())


def load(
    file: Path, store: QuantisedStore | None, free: int | None = None, **options: Any
) -> ReadModel:
    """With room for all but the blocks."""
    plan = plan_of(file)
    room = plan.num_bytes - plan.mapped_bytes + HEADROOM_BYTES if free is None else free
    container = open_files(file).container
    return load_model(
        container, CPU, torch.bfloat16, kernels=kernels(), store=store, available=lambda _: room,
        **options,
    )  # fmt: skip


def logits(read: ReadModel) -> Tensor:
    return our_logits(read.model, [text(20)], [17, 19])


def tiles_in(store: QuantisedStore) -> list[Path]:
    return sorted((store.blobs.folder / TILES).glob("*"))


@pytest.fixture
def file(converted: ConvertedOf, tmp_path: Path) -> Path:
    made = rewrite(converted("qwen35moe").file, tmp_path / "model.gguf", mixed(SMALL))
    os.utime(made, ns=(WRITTEN_NS, WRITTEN_NS))
    return made


@pytest.mark.parametrize("name", MODELS)
def test_G2_mapped_blocks_give_the_same_bits_in_the_first_and_the_second_load(
    name: str, converted: ConvertedOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rewrite(converted(name).file, tmp_path / "model.gguf", mixed(MODELS[name]))
    os.utime(made, ns=(WRITTEN_NS, WRITTEN_NS))
    store, in_memory = store_in(tmp_path / "store"), load(made, None, 2**40)
    first = load(made, store)
    assert not (in_memory.mapped_bytes or first.from_disk)
    (tiles,) = tiles_in(store)
    assert tiles.stat().st_size == first.mapped_bytes == plan_of(made).mapped_bytes > 0
    monkeypatch.setattr(StoredRows, "fill", None)  # the second load reads no blocks
    second = load(made, store)
    assert second.from_disk and second.weights_digest == first.weights_digest
    expected = logits(in_memory)
    assert torch.equal(logits(first), expected) and torch.equal(logits(second), expected)


def test_chosen_experts_are_read_at_once(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = load(file, store_in(tmp_path / "store"))
    expected, ahead = logits(read), list[int]()
    monkeypatch.setattr(native, "prefetch", lambda address, num_bytes: ahead.append(num_bytes))
    assert torch.equal(logits(read), expected)
    assert ahead and sum(ahead) > 0
    ahead.clear()
    logits(load(file, None, 2**40))
    assert not ahead


def test_a_file_of_tiles_that_was_changed_is_made_again(file: Path, tmp_path: Path) -> None:
    store = store_in(tmp_path / "store")
    expected = logits(load(file, store))
    (tiles,) = tiles_in(store)
    with tiles.open("r+b") as data:
        data.write(bytes(1000))
    again = load(file, store)
    assert not again.from_disk and torch.equal(logits(again), expected)
    (tiles,) = tiles_in(store)
    os.truncate(tiles, 1000)
    assert not load(file, store).from_disk and load(file, store).from_disk


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="gives a file away")
def test_a_file_of_tiles_that_belongs_to_another_user_is_made_again(
    file: Path, tmp_path: Path
) -> None:
    store = store_in(tmp_path / "store")
    load(file, store)
    (tiles,) = tiles_in(store)
    os.chown(tiles, 65_534, -1)
    assert not load(file, store).from_disk and load(file, store).from_disk


def test_weights_that_were_changed_get_other_tiles(file: Path, tmp_path: Path) -> None:
    store = store_in(tmp_path / "store")
    load(file, store)
    with file.open("r+b") as data:
        data.seek(-1, os.SEEK_END)
        data.write(b"x")
    assert not load(file, store).from_disk


def test_G3_without_room_on_the_disk_a_large_model_is_refused(file: Path, tmp_path: Path) -> None:
    plan, store = plan_of(file), store_in(tmp_path / "store")
    room = plan.num_bytes - plan.mapped_bytes + HEADROOM_BYTES
    with pytest.raises(NotEnoughMemoryError, match="larger than free memory"):
        load_model(
            open_files(file).container, CPU, torch.bfloat16, kernels=kernels(), store=store,
            available=lambda _: room, most_on_disk=plan.mapped_bytes - 1,
        )  # fmt: skip
    assert not tiles_in(store)
    for given, free in ((store, room - 1), (None, room)):
        with pytest.raises(NotEnoughMemoryError, match="is free"):
            load(file, given, free)


def test_a_quota_that_is_used_up_leaves_no_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used_up(handle: int, start: int, size: int) -> None:
        os.truncate(handle, size // 2)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "posix_fallocate", used_up)
    store = store_in(tmp_path / "store")
    with pytest.raises(NotEnoughMemoryError, match="quota"):
        load(file, store)
    assert not tiles_in(store)


def test_beside_another_model_none_is_mapped(file: Path, tmp_path: Path) -> None:
    store = store_in(tmp_path / "store")
    with pytest.raises(NotEnoughMemoryError, match="is free"):
        load(file, store, most_on_disk=0)
    assert not tiles_in(store) and load(file, store).mapped_bytes


def test_a_load_that_is_stopped_leaves_no_tiles(file: Path, tmp_path: Path) -> None:
    plan, store = plan_of(file), store_in(tmp_path / "store")
    room = plan.num_bytes - plan.mapped_bytes + HEADROOM_BYTES

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise RequestCancelled("Stopped.")

    with pytest.raises(RequestCancelled):
        load_model(
            open_files(file).container, CPU, torch.bfloat16, stop, kernels=kernels(), store=store,
            available=lambda _: room,
        )  # fmt: skip
    assert not tiles_in(store) and not store.blobs.num_bytes(TILES)


def test_a_load_can_be_stopped_while_tiles_go_to_the_disk(tmp_path: Path) -> None:
    arena, calls = FileArena(tmp_path / "tiles", 2**25 + 1, filled=False), 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RequestCancelled("Stopped.")

    arena.room(2**25 + 1).fill_(7)
    with pytest.raises(RequestCancelled):
        arena.sync(check)
    arena.sync()
    assert (tmp_path / "tiles").read_bytes() == bytes([7]) * (2**25 + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_tiles_are_moved_to_their_place_when_nothing_maps_them(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, finish, maps = store_in(tmp_path / "store"), TileFile.finish, []

    def watched(tiles: TileFile, *digests: str) -> None:
        maps.append(Path("/proc/self/maps").read_text())
        finish(tiles, *digests)

    monkeypatch.setattr(TileFile, "finish", watched)
    load(file, store)
    assert len(maps) == 1 and str(store.blobs.folder / TILES) not in maps[0]


def test_a_file_that_changes_between_its_two_readings_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, finish = store_in(tmp_path / "store"), TileFile.finish

    def changed(tiles: TileFile, *digests: str) -> None:
        finish(tiles, *digests)
        with file.open("r+b") as data:
            data.seek(-1, os.SEEK_END)
            data.write(b"x")

    monkeypatch.setattr(TileFile, "finish", changed)
    # As on a file system whose times are too coarse to tell.
    monkeypatch.setattr(GGUFContainer, "facts", lambda container: [])
    with pytest.raises(BrokenWeightsError, match="changed while"):
        load(file, store)


def test_blocks_are_mapped_if_no_precision_fits(converted: ConvertedOf, tmp_path: Path) -> None:
    file = rewrite(converted("wide").file, tmp_path / "model.gguf", mixed(("Q8_0", "Q8_0")))
    plan, store = ModelPlan(open_files(file).container), store_in(tmp_path / "store")
    settings = ModelSettings(path="", precision="auto", measure_kernels=False)
    library()

    for notes in (store.blobs, None):
        chosen = choose_precision(settings, plan, CPU, HEADROOM_BYTES, notes=notes)
        assert (chosen.precision == PUBLISHED) == (notes is not None)
        assert chosen.mapped_bytes < chosen.num_bytes and chosen.why is not None
