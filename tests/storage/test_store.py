"""A store of blobs: notes, pools, stray files, and closing; owners, caps and faults
are tried with segments (tests/cache/disk) and quantised weights (tests/loading)."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.storage.index import Index
from core.storage.rows import WEIGHTS, Blob
from core.storage.store import MOST_NOTES, DiskStore
from tests.storage.disks import PLENTY, RoomyFiles, check_whole

POOL = "ab" * 32
NAMES = [f"{number:064x}.safetensors" for number in range(10)]


def open_store(folder: Path) -> DiskStore:
    return DiskStore(folder, 0, RoomyFiles())


def put(blobs: DiskStore, pool: str, number: int, owner: str = "chat", cap: int = PLENTY) -> bool:
    return blobs.put(Blob(pool, NAMES[number], 5, owners=[owner]), [b"he", b"llo"], cap)


def test_a_pool_makes_room_for_itself_alone(tmp_path: Path) -> None:
    blobs = open_store(tmp_path)
    for number in range(3):
        assert put(blobs, WEIGHTS, number, WEIGHTS) and put(blobs, POOL, number)
    assert put(blobs, POOL, 3, cap=10)
    assert (blobs.num_bytes(POOL), blobs.num_bytes(WEIGHTS)) == (10, 15)
    assert blobs.size(POOL, NAMES[1]) is None and blobs.size(WEIGHTS, NAMES[1]) == 5
    blobs.shrink(WEIGHTS, 5)
    assert (blobs.num_bytes(POOL), blobs.num_bytes(WEIGHTS)) == (10, 5)
    check_whole(blobs)


def test_forgetting_everybody_leaves_the_weights(tmp_path: Path) -> None:
    blobs = open_store(tmp_path)
    put(blobs, WEIGHTS, 0, WEIGHTS)
    put(blobs, POOL, 0)
    blobs.forget(None)
    assert (blobs.num_bytes(POOL), blobs.num_bytes(WEIGHTS)) == (0, 5)
    assert not (tmp_path / POOL).exists()
    blobs.forget(WEIGHTS)
    assert blobs.num_bytes(WEIGHTS) == 0 and not (tmp_path / WEIGHTS).exists()
    check_whole(blobs)


def test_a_blob_put_again_is_in_place_of_the_old(tmp_path: Path) -> None:
    blobs = open_store(tmp_path)
    assert put(blobs, POOL, 0, "one") and put(blobs, POOL, 0, "other")
    assert blobs.num_bytes(POOL) == 5
    blobs.forget("one")
    assert blobs.size(POOL, NAMES[0]) == 5
    check_whole(blobs)


def test_what_the_index_does_not_name_is_deleted_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for pool in (POOL, WEIGHTS):
        (tmp_path / pool).mkdir()
    old = [
        tmp_path / POOL / f"kv-{'0' * 64}.safetensors",
        tmp_path / POOL / ".new-kv-0",
        tmp_path / WEIGHTS / NAMES[0],
    ]
    mine = [tmp_path / "notes.json", tmp_path / WEIGHTS / "notes.json"]
    for path in old + mine:
        path.write_bytes(b"words")
    with caplog.at_level(logging.INFO):
        blobs = open_store(tmp_path)
    assert "3 files that nothing uses were deleted" in caplog.text
    assert not any(path.exists() for path in old) and not (tmp_path / POOL).exists()
    assert all(path.read_bytes() == b"words" for path in mine)
    check_whole(blobs)


def test_notes_are_kept_and_the_oldest_of_a_kind_go(tmp_path: Path) -> None:
    blobs = open_store(tmp_path)
    blobs.write_note("other", "key", "first")
    for number in range(MOST_NOTES + 3):
        blobs.write_note("kind", f"{number}", f"value {number}")
    blobs.write_note("kind", "3", "again")
    blobs.write_note("kind", "new", "value")
    blobs = open_store(tmp_path)
    found = [blobs.note("kind", f"{number}") for number in range(MOST_NOTES + 3)]
    assert found[:6] == [None, None, None, "again", None, "value 5"]
    assert blobs.note("other", "key") == "first" and blobs.note("kind", "key") is None
    blobs.delete_notes("kind")
    assert blobs.note("kind", "new") is None and blobs.note("other", "key") == "first"


def test_a_closed_store_is_empty_until_it_is_opened_again(tmp_path: Path) -> None:
    blobs = open_store(tmp_path)
    put(blobs, POOL, 0)
    blobs.close()
    assert blobs.closed and blobs.size(POOL, NAMES[0]) is None and blobs.num_bytes(POOL) == 0
    with pytest.raises(OSError, match="closed"):
        put(blobs, POOL, 1)
    assert not list(tmp_path.rglob(".new-*"))
    blobs.open()
    assert blobs.size(POOL, NAMES[0]) == 5
    check_whole(blobs)


def test_an_index_that_can_not_be_read_costs_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = open_store(tmp_path)
    put(blobs, POOL, 0)
    put(blobs, POOL, 1, "other")

    def failing(self: Index, statement: str, *values: object) -> Any:
        if "SELECT" in statement:
            raise OSError(5, "Input/output error")
        return []

    with monkeypatch.context() as patched:
        patched.setattr(Index, "ask", failing)
        with pytest.raises(OSError, match="Input"):
            blobs.forget("other")
        with pytest.raises(OSError, match="Input"):
            put(blobs, POOL, 2)
        assert DiskStore(tmp_path, 0, RoomyFiles()).size(POOL, NAMES[0]) is None
    assert [path.name for path in sorted((tmp_path / POOL).iterdir())] == NAMES[:2]
    blobs.open()
    blobs.forget("other")
    assert blobs.size(POOL, NAMES[0]) == 5 and blobs.num_bytes(POOL) == 5
    check_whole(blobs)


class StuckFiles(RoomyFiles):
    """A disk on which files of some names can't be deleted, as while another program reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck: set[str] = set()

    def delete(self, path: Path) -> None:
        if path.name in self.stuck:
            raise PermissionError(13, "Permission denied")
        super().delete(path)


def test_a_file_that_stays_keeps_no_other(tmp_path: Path) -> None:
    """And is not said to be gone, whatever else is deleted meanwhile, until it is."""
    files = StuckFiles()
    blobs = DiskStore(tmp_path, 0, files)
    for pool in (POOL, "cd" * 32):
        assert all(put(blobs, pool, number) for number in range(3))
    assert put(blobs, POOL, 5, "other") and put(blobs, POOL, 6, "third")
    files.stuck = {NAMES[0]}
    with pytest.raises(PermissionError):
        blobs.forget("chat")
    left = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.safetensors"))
    assert {path.name for path in left} == {NAMES[0], NAMES[5], NAMES[6]} and len(left) == 4
    blobs.lose(POOL, NAMES[5])
    with pytest.raises(PermissionError):
        blobs.forget("third")
    assert not (tmp_path / POOL / NAMES[6]).exists()
    with pytest.raises(PermissionError):
        blobs.forget("chat")
    files.stuck = set()
    blobs.forget("chat")
    assert not list(tmp_path.rglob("*.safetensors"))
    check_whole(blobs)


def test_what_a_failed_writing_left_goes_with_the_next_deletion(tmp_path: Path) -> None:
    class Full(StuckFiles):
        full = False

        def _sync(self, handle: int) -> None:
            if self.full:
                self.stuck = {".new-blob-0"}
                raise OSError(28, "No space left on device")

    files = Full()
    blobs = DiskStore(tmp_path, 0, files)
    files.full = True
    with pytest.raises(OSError, match="No space"):
        put(blobs, POOL, 0)
    assert (tmp_path / POOL / ".new-blob-0").exists()
    files.full, files.stuck = False, set()
    blobs.forget("chat")
    assert not (tmp_path / POOL).exists()


def test_a_folder_that_is_gone_is_as_good_as_deleted(tmp_path: Path) -> None:
    blobs = open_store(tmp_path)
    assert put(blobs, POOL, 0) and put(blobs, WEIGHTS, 1, WEIGHTS)
    shutil.rmtree(tmp_path / POOL)
    blobs.forget("chat")
    assert blobs.size(POOL, NAMES[0]) is None and blobs.size(WEIGHTS, NAMES[1]) == 5


def test_a_deletion_that_went_well_leaves_nothing_to_look_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for files without a row reads the names of all there are."""
    blobs = open_store(tmp_path)
    assert put(blobs, POOL, 0) and put(blobs, POOL, 1, "other")
    monkeypatch.setattr(blobs, "_sweep", lambda: pytest.fail("nothing was left"))
    blobs.forget("chat")
    assert put(blobs, POOL, 2) and blobs.size(POOL, NAMES[1]) == 5
    blobs.forget("other")
    check_whole(blobs)
