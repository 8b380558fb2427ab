"""What is no damage: another program's file, a newer one, a migration of ours that fails."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store.database import Database
from desktop.store.tables.faults import (
    ForeignDatabaseError,
    MigrationError,
    NewerDatabaseError,
)
from desktop.store.tables.schema import MIGRATIONS
from tests.desktop.store.damage import (
    SECRET,
    all_texts,
    damaged_files,
)


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE bookmarks (id INTEGER PRIMARY KEY, a, b TEXT, c TEXT, d TEXT)")
        other.execute("INSERT INTO bookmarks VALUES (1, 1, 'a', 'b', 'c')")
        other.commit()
    before = path.read_bytes()
    with pytest.raises(ForeignDatabaseError) as refusal:
        Database(path)
    assert refusal.value.blames_file
    assert path.read_bytes() == before and damaged_files(path) == []


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
