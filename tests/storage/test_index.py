"""An index that is gone, damaged, of another version, locked or in the way costs what it named, or
the use of the store, and nothing else; what was forgotten is in none of its bytes."""

from __future__ import annotations

import logging
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from core.storage.index import Index
from core.storage.rows import Blob
from core.storage.store import DiskStore
from tests.storage.disks import PLENTY, RoomyFiles, check_whole

POOL = "ab" * 32
NAMES = [f"kv-{number:064x}.safetensors" for number in range(40)]


def open_store(folder: Path) -> DiskStore:
    return DiskStore(folder, 0, RoomyFiles())


def put(blobs: DiskStore, number: int, *owners: str) -> bool:
    content = bytes([number]) * 100
    return blobs.put(Blob(POOL, NAMES[number], 100, owners=owners), [content], PLENTY)


def held(blobs: DiskStore) -> list[int]:
    """The blobs that are held; each must be the right one."""
    found = [number for number in range(40) if blobs.size(POOL, NAMES[number]) == 100]
    for number in found:
        assert blobs.files.read(blobs.path(POOL, NAMES[number]), 100) == bytes([number]) * 100
    return found


def make(folder: Path) -> None:
    """A store of ten blobs, each of a chat of its own, that was closed properly."""
    blobs = open_store(folder)
    for number in range(10):
        put(blobs, number, f"chat-{number}")
    blobs.close()
    assert sorted(path.name for path in folder.iterdir()) == [POOL, "index.db"]


def flipped(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def of_another_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE notes ADD COLUMN other TEXT")


SPOILT: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "no index": lambda path: path.write_bytes(b"SQLite is not this." * 1_000),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "another version": of_another_version,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_D3_an_index_that_is_of_no_use_is_begun_again_with_a_word(
    tmp_path: Path, spoil: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path)
    mine = tmp_path / POOL / "notes.txt"
    mine.write_bytes(b"mine")
    spoil(tmp_path / "index.db")
    with caplog.at_level(logging.INFO):
        blobs = open_store(tmp_path)
    assert "10 files that nothing uses were deleted" in caplog.text
    assert not blobs.closed and held(blobs) == [] and blobs.num_bytes(POOL) == 0
    check_whole(blobs)
    assert list((tmp_path / POOL).iterdir()) == [mine]
    assert put(blobs, 3, "chat") and held(open_store(tmp_path)) == [3]


def test_D3_a_flipped_bit_gives_no_chat_to_another_owner(tmp_path: Path) -> None:
    """Wherever it is: what is held then is right, and goes with its own chat."""
    make(tmp_path / "whole")
    num_bits = 8 * (tmp_path / "whole" / "index.db").stat().st_size
    whole = (tmp_path / "whole" / "index.db").read_bytes()
    names = [8 * at for number in range(10) for at in places(whole, b"chat-%d" % number)]
    assert len(names) >= 20
    for bit in [*random.Random(8).sample(range(num_bits), 60), *(at + 8 * 5 for at in names)]:
        folder = tmp_path / "spoilt"
        shutil.copytree(tmp_path / "whole", folder)
        flipped(folder / "index.db", bit)
        blobs = open_store(folder)
        check_whole(blobs)
        for number in held(blobs):
            blobs.forget(f"chat-{number}")
            assert number not in held(blobs), bit
        assert not list(folder.rglob("*.safetensors"))
        shutil.rmtree(folder)


def places(data: bytes, part: bytes) -> list[int]:
    return [at for at in range(len(data)) if data.startswith(part, at)]


def test_D3_no_flipped_bit_keeps_the_store_from_working(tmp_path: Path) -> None:
    """Every operation works afterwards: on what was held, or on an index that was begun again."""
    make(tmp_path / "whole")
    whole = (tmp_path / "whole" / "index.db").read_bytes()
    draw = random.Random(16)
    live = [8 * at + draw.randrange(8) for at in range(len(whole)) if whole[at]]
    # The highest bit of a letter leaves text that is no UTF-8, which Python's module refuses.
    definitions = places(whole, b"CREATE ")
    letters = [8 * (at + draw.randrange(200)) + 7 for at in definitions * 5]
    for bit in [*draw.sample(live, 150), *letters]:
        folder = tmp_path / "spoilt"
        shutil.copytree(tmp_path / "whole", folder)
        flipped(folder / "index.db", bit)
        blobs = open_store(folder)
        assert put(blobs, 20, "chat"), bit
        blobs.write_note("kind", "key", "value")
        assert blobs.note("kind", "key") == "value"
        assert 20 in held(blobs)
        blobs.forget("chat-0")
        blobs.forget(None)
        assert not held(blobs) and not list(folder.rglob("*.safetensors")), bit
        check_whole(blobs)
        shutil.rmtree(folder)


def test_D2_a_log_cut_at_any_byte_keeps_what_was_done_before(tmp_path: Path) -> None:
    """A power cut, or a kill amid SQLite's own writing."""
    make(tmp_path / "whole")
    blobs = open_store(tmp_path / "whole")
    for number in range(10, 14):
        put(blobs, number, f"chat-{number}")
    blobs.own("chat-0", POOL, [NAMES[13]])
    log = tmp_path / "whole" / "index.db-wal"
    for length in random.Random(2).sample(range(log.stat().st_size), 30):
        folder = tmp_path / str(length)
        shutil.copytree(tmp_path / "whole", folder)
        (folder / "index.db-shm").unlink()
        os.truncate(folder / "index.db-wal", length)
        cut = open_store(folder)
        found = held(cut)
        assert found == list(range(len(found))) and len(found) >= 10
        check_whole(cut)


def test_D3_damage_that_shows_while_the_store_is_open_closes_it(tmp_path: Path) -> None:
    make(tmp_path)
    blobs = open_store(tmp_path)
    size = (tmp_path / "index.db").stat().st_size
    (tmp_path / "index.db").write_bytes(random.Random(1).randbytes(size))
    blobs._ask("PRAGMA shrink_memory")  # what SQLite holds of the file
    with pytest.raises(OSError, match=r"damaged|error"):
        put(blobs, 30, "chat")
    assert held(blobs) == [] and blobs.note("kind", "key") is None
    blobs.touch(POOL, NAMES[0])
    blobs.lose(POOL, NAMES[0])
    blobs.forget("chat-0")
    assert not blobs.closed and put(blobs, 30, "chat") and held(blobs) == [30]
    check_whole(blobs)


def test_an_index_locked_by_another_process_costs_what_would_be_written(tmp_path: Path) -> None:
    make(tmp_path)
    blobs = open_store(tmp_path)
    with closing(sqlite3.connect(tmp_path / "index.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OSError, match="busy"):
            put(blobs, 30, "chat")
        with pytest.raises(OSError, match="busy"):
            blobs.forget("chat-1")
        assert held(blobs) == list(range(10))
    blobs.forget("chat-1")
    assert 1 not in held(blobs) and put(blobs, 30, "chat")
    check_whole(blobs)


def test_D4_where_there_is_no_room_for_shared_memory_the_store_still_opens(tmp_path: Path) -> None:
    """A full disk has the same effect."""
    make(tmp_path)
    (tmp_path / "index.db-shm").mkdir()
    blobs = open_store(tmp_path)
    assert not blobs.closed and held(blobs) == list(range(10))
    blobs.forget("chat-1")
    assert 1 not in held(blobs)


def test_M2_a_full_disk_has_no_room_for_a_transaction_until_files_are_gone(tmp_path: Path) -> None:
    class Full(RoomyFiles):
        def commit(self, connection: sqlite3.Connection) -> None:
            if len(list(tmp_path.rglob("*.safetensors"))) == 10:
                raise OSError(28, "No space left on device")
            super().commit(connection)

    make(tmp_path)
    blobs = open_store(tmp_path)
    blobs.files = Full()
    assert blobs._index is not None
    blobs._index._files = blobs.files
    blobs.forget("chat-1")
    assert held(blobs) == [0, *range(2, 10)]
    check_whole(blobs)


def test_M2_nothing_of_a_forgotten_chat_lingers_in_the_index(tmp_path: Path) -> None:
    blobs, draw = open_store(tmp_path), random.Random(4)
    everybody = [f"owner-{number:03}-of-a-chat" for number in range(300)]
    owners = everybody.copy()
    for owner in owners:
        number = draw.randrange(40)
        if blobs.size(POOL, NAMES[number]) is None:
            put(blobs, number, owner)
        else:
            blobs.own(owner, POOL, [NAMES[number]])
    for owner in draw.sample(owners, 200):
        blobs.forget(owner)
        owners.remove(owner)
    found = b"".join(path.read_bytes() for path in tmp_path.glob("index.db*"))
    assert all((owner.encode() in found) == (owner in owners) for owner in everybody)


def test_an_index_takes_what_sqlite_refuses_for_an_error_of_the_disk(tmp_path: Path) -> None:
    with closing(Index(tmp_path / "index.db", RoomyFiles())) as index:
        with pytest.raises(OSError, match="Input/output error"), index.change():
            index.ask("INSERT INTO owners VALUES ('nobody', 7)")
        with index.change():
            assert index.ask("SELECT * FROM owners") == []
