"""A store of segments: the same bits come back, owners and caps are kept, odd disks too."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
import torch

from core.cache.disk.segment import SegmentDamagedError
from core.cache.disk.store import SegmentStore, forget
from core.storage.files import Space
from core.storage.store import DiskStore
from tests.cache.disk.worlds import (
    EMBEDDING,
    FINGERPRINT,
    KV,
    STATE,
    check_integrity,
    file_of,
    get,
    key,
    open_store,
    pictures,
    put_chain,
    put_pictures,
    same,
    tensors,
)
from tests.storage.disks import PLENTY, RoomyFiles, check_whole

ODD_TENSORS = {
    "float32": torch.tensor([0.0, -0.0, float("nan"), float("-inf"), 1e-45]),
    "bfloat16": torch.arange(7, dtype=torch.bfloat16) / 3,
    "int64": torch.tensor([[-(2**63)], [2**63 - 1]]),
    "uint8": torch.arange(3, dtype=torch.uint8),
    "bool": torch.tensor([True, False, True]),
    "float16": torch.tensor(0.1, dtype=torch.float16),
    "empty": torch.empty(0, 4, dtype=torch.bfloat16),
    "strided": torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1)[1:, :, ::2],
    "a slice": torch.arange(100.0)[40:43],
}


def test_X4_every_type_shape_and_stride_comes_back_to_the_bit(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.put(EMBEDDING, key(0), None, ODD_TENSORS, ["chat"])
    for reopened in (store, open_store(tmp_path)):
        assert same(reopened.get(EMBEDDING, key(0)), ODD_TENSORS)


def test_what_is_read_owns_its_memory(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_chain(store, [0], "chat")
    found = store.get(KV, key(0))
    assert found is not None
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in found.values())
    for tensor in found.values():
        tensor.zero_()
    assert get(store, KV, 0)


def test_what_lacks_its_parent_cannot_be_put(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for kind, number, parent in ((KV, 1, key(0)), (STATE, 0, None)):
        with pytest.raises(AssertionError):
            store.put(kind, key(number), parent, tensors(number), ["chat"])


def test_D2_nothing_is_written_twice(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_chain(store, [0, 1], "chat")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert len(before) > 3
    put_chain(store, [0, 1], "chat")
    store.own("chat", STATE, key(1))
    assert before == {path: path.stat().st_mtime_ns for path in before}


# -- owners


def test_M2_owners_of_what_is_gone_are_cleared_away(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_chain(store, [0], "chat")
    put_chain(store, [1], "chat")
    store.put(EMBEDDING, key(2), None, tensors(2), ["other"])
    assert len(owners(store)) == 5
    store.cap = store.num_bytes - 1
    assert owners(store) == owners(open_store(tmp_path)) == ["chat", "chat", "other"]
    assert owners(open_store(tmp_path, cap=0)) == []


def owners(store: SegmentStore) -> list[str]:
    """The owner of each segment that has one, as often as it has."""
    return sorted(owner for (owner,) in store.blobs._ask("SELECT owner FROM owners"))


def test_M2_owners_that_differ_in_case_only_are_two(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number, owner in enumerate(("aB", "Ab", "-", "_", "con", "a" * 64, "A" * 64)):
        store.put(EMBEDDING, key(number), None, tensors(number), [owner])
    store = open_store(tmp_path)
    store.forget("aB")
    assert pictures(store) == set(range(1, 7))


def test_M2_a_chat_is_forgotten_in_models_that_are_not_loaded(tmp_path: Path) -> None:
    prints = [bytes([number]) * 32 for number in range(3)]
    for fingerprint in prints:
        store = open_store(tmp_path, fingerprint=fingerprint)
        put_chain(store, [0], "chat")
        put_chain(store, [1], "other")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ("0" * 63)).mkdir()
    blobs = DiskStore(tmp_path, 0, RoomyFiles())
    forget(blobs, "chat")
    check_whole(blobs)
    for fingerprint in prints:
        store = SegmentStore(blobs, fingerprint, PLENTY)
        assert not store.has(STATE, key(0)) and get(store, STATE, 1)
    SegmentStore(blobs, prints[2], PLENTY).forget(None)
    assert [path.name for path in tmp_path.glob("?" * 64)] == [each.hex() for each in prints[:2]]
    forget(blobs, None)
    found = {path.name for path in tmp_path.iterdir() if not path.name.startswith("index.db")}
    assert found == {"notes.txt", "0" * 63}


# -- room


def size_of_one(tmp_path: Path) -> int:
    store = open_store(tmp_path / "measured")
    put_pictures(store, 1)
    return store.num_bytes


def test_D4_segments_of_one_moment_have_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the clock stands still, as the system's does for milliseconds, or goes back."""
    store, moments = open_store(tmp_path), iter([5, 5, 5, 4])
    monkeypatch.setattr(time, "time_ns", lambda: 10**17 * next(moments))
    put_pictures(store, 3)
    store.touch(EMBEDDING, key(0))
    store = open_store(tmp_path)
    for left in ({0, 2}, {0}, set()):
        store.cap = store.num_bytes - 1
        assert pictures(store) == left


@pytest.mark.parametrize("reopened", [False, True])
def test_D4_what_memory_served_counts_as_used_after_a_restart_too(
    tmp_path: Path, reopened: bool
) -> None:
    store = open_store(tmp_path)
    put_pictures(store, 3)
    for number in (2, 7, 0, 1):  # there is no 7
        store.touch(EMBEDDING, key(number))
    store = open_store(tmp_path) if reopened else store
    get(store, EMBEDDING, 2)
    store = open_store(tmp_path) if reopened else store
    store.cap = store.num_bytes - 1
    assert pictures(store) == {1, 2}


def test_D4_a_chain_is_never_evicted_by_its_own_writing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_chain(store, [0, 1, 2, 3], "old")
    store = open_store(tmp_path, cap=store.num_bytes)
    assert put_chain(store, [10, 11, 12, 13], "new")
    check_integrity(store)
    assert all(get(store, KV, number) for number in range(10, 14)) and get(store, STATE, 13)
    assert not store.has(STATE, key(3))
    assert not put_chain(store, [20, 21, 22, 23, 24], "too_long")
    check_integrity(store)
    assert store.has(KV, key(20)) and not store.has(STATE, key(13))
    assert put_chain(store, [30, 31], "next")
    assert not store.has(KV, key(20))
    check_integrity(store)


def test_D4_a_chain_being_written_outlives_what_else_is_put(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_chain(store, [0], "old")
    put_chain(store, [1], "old")
    store.put(KV, key(2), None, tensors(2), ["new"])
    store.put(KV, key(3), key(2), tensors(3), ["new"])
    store.cap = store.num_bytes
    assert store.put(EMBEDDING, key(9), None, tensors(9), ["old"])
    assert store.put(STATE, key(2), None, tensors(502), ["new"])
    check_integrity(store)
    assert not store.has(STATE, key(0)) and get(store, KV, 3)
    store = open_store(tmp_path / "other")
    put_chain(store, [0], "old")
    store.put(KV, key(1), None, tensors(1), ["new"])
    store.cap = store.num_bytes
    store.own("new", KV, key(0))
    assert store.put(EMBEDDING, key(9), None, tensors(9), ["old"])
    assert get(store, KV, 1)


def test_D4_what_can_never_fit_evicts_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_chain(store, [0], "chat")
    store.cap = store.num_bytes + 1
    assert not store.put(EMBEDDING, key(1), None, tensors(1, 10_000), ["chat"])
    assert get(store, STATE, 0) and not store.has(EMBEDDING, key(1))
    store.cap = 0
    assert store.num_bytes == 0 and not put_chain(store, [0], "chat")
    check_integrity(store)


def test_D4_lowering_the_cap_takes_even_the_chain_being_written(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put(KV, key(0), None, tensors(0), ["chat"])
    store.put(KV, key(1), key(0), tensors(1), ["chat"])
    store.cap = 1
    assert store.num_bytes == 0
    check_integrity(store)


def test_D4_the_free_space_floor_evicts_and_then_refuses(tmp_path: Path) -> None:
    class Shrinking(RoomyFiles):
        def free(self, folder: Path) -> Space:
            used = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
            return Space(self.space.free - used, self.space.total)

    one = size_of_one(tmp_path)
    floor = 100 * one
    files = Shrinking()
    files.space = Space(floor + 2 * one + 1, 1_000)
    store = open_store(tmp_path / "store", files=files, floor=floor)
    for number in range(5):
        assert store.put(EMBEDDING, key(number), None, tensors(number), [""])
        assert files.free(store.blobs.folder).free >= floor
    assert pictures(store) == {3, 4}
    files.space = Space(floor - 1, 1_000)
    assert not store.put(EMBEDDING, key(9), None, tensors(9), [""])
    assert "GiB left" in str(store.trouble)
    assert get(store, EMBEDDING, 3) and get(store, EMBEDDING, 4)
    files.space = Space(20 * floor, 400 * floor)
    assert not store.put(EMBEDDING, key(9), None, tensors(9), [""])
    files.space = Space(21 * floor, 400 * floor)
    assert store.put(EMBEDDING, key(9), None, tensors(9), [""]) and store.trouble is None
    check_integrity(store)


# -- odd folders


def test_D3_foreign_files_are_left_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_chain(store, [0], "chat")
    folder = file_of(store, KV, 0).parent
    names = ["notes.txt", "kv-12.safetensors", f"KV-{key(1).hex()}.safetensors", "owners/a.log"]
    foreign = [tmp_path / "notes.txt", *(folder / name for name in names)]
    (folder / "owners").mkdir()
    for path in foreign:
        path.write_bytes(b"mine")
    file_of(store, KV, 5).mkdir()
    store = open_store(tmp_path)
    store.forget(None)
    assert all(path.read_bytes() == b"mine" for path in foreign)
    assert not store.put(KV, key(5), None, tensors(5), [""]) and store.trouble is not None
    assert put_chain(store, [6], "chat")
    check_integrity(store)


def test_D3_another_model_has_segments_of_its_own(tmp_path: Path) -> None:
    put_chain(open_store(tmp_path), [0], "chat")
    store = open_store(tmp_path, fingerprint=FINGERPRINT[::-1])
    assert store.num_bytes == 0 and not store.has(STATE, key(0))
    check_integrity(store)
    assert get(open_store(tmp_path), STATE, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_only_the_owner_may_look(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "model"
    before = os.umask(0)
    try:
        put_chain(open_store(folder), [0], "chat")
    finally:
        os.umask(before)
    for path in (tmp_path / "cache").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_a_file_in_the_folders_place_closes_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        store = open_store(folder)
        assert store.blobs.closed and store.trouble is not None and str(folder) in store.trouble
        assert not store.put(KV, key(0), None, tensors(0), ["chat"])
        assert not store.has(KV, key(0)) and store.get(KV, key(0)) is None
        store.own("chat", KV, key(0))
        store.forget("chat")
        store.forget(None)
        store.cap = 5
        check_integrity(store)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_D3_files_that_vanish_are_noticed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_chain(store, [0, 1], "chat")
    file_of(store, KV, 0).unlink()
    with pytest.raises(SegmentDamagedError, match="can't be read"):
        store.get(KV, key(0))
    assert store.num_bytes == 0
    check_integrity(store)
