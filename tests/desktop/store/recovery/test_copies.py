"""Copies before migrations, files put aside, and what a copy that was cut off leaves."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store.recovery import copies
from desktop.store.tables.schema import MIGRATIONS
from tests.desktop.store.damage import (
    SECRET,
    all_texts,
    opened,
)


def test_a_copy_comes_before_each_migration_and_the_newest_two_stay(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 5):
        more = [f"CREATE TABLE more_{each} (a INTEGER);" for each in range(1, number + 1)]
        steps = (*MIGRATIONS, *more)
        for module in ("database", "recovery.check"):
            monkeypatch.setattr(f"desktop.store.{module}.MIGRATIONS", steps)
        with opened(path) as database:
            (made,) = database.made
            assert made.stat().st_mode & 0o777 == 0o600
    found = sorted(path.parent.glob("chats.copy-*"))
    assert len(found) == 2
    for copy, version in zip(found, (len(MIGRATIONS) + 2, len(MIGRATIONS) + 3), strict=True):
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (version,)
        assert len(all_texts(copy)) == len(all_texts(path))


def test_a_new_file_needs_no_copy(tmp_path: Path) -> None:
    with opened(tmp_path / "chats.db") as database:
        assert database.made == set()
    assert list(tmp_path.glob("chats.copy-*")) == []


def test_what_a_copy_that_was_cut_off_has_left_is_deleted(path: Path) -> None:
    for suffix in ("", "-journal", "-wal"):
        Path(f"{path.with_name('chats.unfinished.db')}{suffix}").write_text(SECRET)
    with opened(path):
        assert list(path.parent.glob("*unfinished*")) == []


def test_a_file_put_aside_is_no_copy(path: Path) -> None:
    aside = copies.set_aside(path)
    assert not path.exists() and aside.exists()
    copies.remove(path)
    assert aside.exists() and copies.names_pictures(path)
    copies.remove_all(path)
    assert not aside.exists()
