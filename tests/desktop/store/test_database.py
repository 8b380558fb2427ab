"""The chats' file: migrated, refused when newer, private; damage is in test_damage."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from desktop.store.database import Database, open_database, open_or_salvage
from desktop.store.tables import chats
from desktop.store.tables.faults import NewerDatabaseError, StoreError
from desktop.store.tables.schema import MIGRATIONS
from tests.desktop.conftest import Loop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def test_a_new_file_is_private_and_has_every_table(path: Path) -> None:
    connection = open_database(path)
    assert path.stat().st_mode & 0o777 == 0o600
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert {"chats", "messages", "replies", "pictures", "message_pictures"} <= tables
    connection.close()


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("user_version", len(MIGRATIONS)),
        ("foreign_keys", 1),
        ("secure_delete", 1),
        ("synchronous", 2),
    ],
)
def test_pragmas(path: Path, pragma: str, value: object) -> None:
    connection = open_database(path)
    assert connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)
    connection.close()


def test_a_newer_file_is_refused_and_left_as_it_is(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.execute("CREATE TABLE from_the_future (words TEXT)")
    connection.close()
    with pytest.raises(NewerDatabaseError, match="newer Waymark"):
        open_or_salvage(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("from_the_future",)]
    connection.close()
    assert list(path.parent.glob("*damaged*")) == []


def test_a_damaged_file_is_kept_under_another_name(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)
    connection, notice = open_or_salvage(path)
    (kept,) = path.parent.glob("chats.damaged-*.db")
    assert kept.read_bytes().startswith(b"no database at all")
    assert kept.name in notice
    assert chats.listed(connection) == []
    connection.close()


def test_nulls_after_a_power_cut_are_seen(path: Path) -> None:
    connection = open_database(path)
    for number in range(200):
        chats.create(connection, f"chat {number} " + "x" * 500)
    connection.close()
    data = bytearray(path.read_bytes())
    data[8192:65536] = bytes(len(data[8192:65536]))
    path.write_bytes(data)
    connection, notice = open_or_salvage(path)
    assert "was damaged" in notice
    assert len(list(path.parent.glob("chats.damaged-*.db"))) == 1
    connection.close()


def test_a_folder_in_its_place_is_an_error_in_words(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreError, match="is no file") as refusal:
        Database(path)
    assert refusal.value.blames_file


async def test_a_failed_transaction_leaves_nothing(path: Path, qloop: Loop) -> None:
    database = Database(path)

    def half(connection: sqlite3.Connection) -> None:
        chats.create(connection, "half")
        connection.execute("INSERT INTO messages (chat) VALUES (999)")

    with pytest.raises(StoreError):
        await database.run(half)
    assert await database.run(chats.listed) == []
    database.close()


async def test_calls_keep_their_order(path: Path, qloop: Loop) -> None:
    database = Database(path)
    made = [database.run(chats.create, f"chat {number}") for number in range(5)]
    assert [await each for each in made] == [1, 2, 3, 4, 5]
    database.close()
