from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store.database import Database, open_database
from desktop.store.tables import chats
from desktop.store.tables.errors import (
    ForeignDatabaseError,
    MigrationError,
    NewerDatabaseError,
    StoreError,
)
from desktop.store.tables.schema import MIGRATIONS
from tests.desktop.conftest import Loop
from tests.desktop.store.damage import SECRET, all_texts, damaged_files


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def test_a_new_file_is_private_and_has_every_table_and_pragma(new: Path) -> None:
    with closing(open_database(new)) as connection:
        assert new.stat().st_mode & 0o777 == 0o600
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        assert {"chats", "messages", "replies", "pictures", "message_pictures"} <= tables
        pragmas = {
            "journal_mode": "wal",
            "user_version": len(MIGRATIONS),
            "foreign_keys": 1,
            "secure_delete": 1,
            "synchronous": 2,
        }
        for pragma, value in pragmas.items():
            assert connection.execute(f"PRAGMA {pragma}").fetchone() == (value,), pragma


def test_a_folder_in_its_place_is_an_error_in_words(new: Path) -> None:
    new.mkdir()
    with pytest.raises(StoreError, match="is not a file") as refusal:
        Database(new)
    assert refusal.value.blames_file


async def test_a_failed_transaction_leaves_nothing(new: Path, qloop: Loop) -> None:
    database = Database(new)

    def half(connection: sqlite3.Connection) -> None:
        chats.create(connection, "half")
        connection.execute("INSERT INTO messages (chat) VALUES (999)")

    with pytest.raises(StoreError):
        await database.run(half)
    assert await database.run(chats.listed) == []
    database.close()


async def test_calls_keep_their_order(new: Path, qloop: Loop) -> None:
    database = Database(new)
    made = [database.run(chats.create, f"chat {number}") for number in range(5)]
    assert [await each for each in made] == [1, 2, 3, 4, 5]
    database.close()


def test_another_programs_database_is_refused_and_left_alone(new: Path) -> None:
    with closing(sqlite3.connect(new)) as other:
        other.execute("CREATE TABLE bookmarks (id INTEGER PRIMARY KEY, a, b TEXT, c TEXT, d TEXT)")
        other.execute("INSERT INTO bookmarks VALUES (1, 1, 'a', 'b', 'c')")
        other.commit()
    before = new.read_bytes()
    with pytest.raises(ForeignDatabaseError) as refusal:
        Database(new)
    assert refusal.value.blames_file
    assert new.read_bytes() == before and damaged_files(new) == []


def test_H7_a_newer_file_is_refused_before_it_is_checked(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    with pytest.raises(NewerDatabaseError) as refusal:
        Database(path)
    assert refusal.value.blames_file and path.read_bytes() == before


def test_H7_a_migration_that_fails_is_no_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "UPDATE chats SET title = NULL"
    monkeypatch.setattr("desktop.store.database.MIGRATIONS", (*MIGRATIONS, broken))
    before = path.read_bytes()
    with pytest.raises(MigrationError) as refusal:
        Database(path)
    assert "SQLITE_CONSTRAINT" in refusal.value.message and SECRET not in refusal.value.message
    assert path.read_bytes() == before and damaged_files(path) == []
    (copy,) = path.parent.glob("chats.copy-*.db")
    assert len(all_texts(copy)) == len(all_texts(path))


def test_all_steps_of_a_migration_count_or_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ("CREATE TABLE more (a INTEGER)", "CREATE TABLE more (a INTEGER)")
    monkeypatch.setattr("desktop.store.database.MIGRATIONS", (*MIGRATIONS, *steps))
    with pytest.raises(MigrationError):
        Database(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        names = connection.execute("SELECT name FROM sqlite_schema WHERE name = 'more'").fetchall()
    assert names == []
