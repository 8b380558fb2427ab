from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store import backups
from desktop.store.tables.schema import MIGRATIONS
from tests.desktop.conftest import Loop
from tests.desktop.store.damage import (
    SECRET,
    all_texts,
    opened,
    root_of,
    zero_page,
)


def test_a_copy_comes_before_each_migration_and_the_newest_two_stay(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 5):
        more = [f"CREATE TABLE more_{each} (a INTEGER);" for each in range(1, number + 1)]
        steps = (*MIGRATIONS, *more)
        for module in ("database", "check"):
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
    aside = backups.set_aside(path)
    assert not path.exists() and aside.exists()
    backups.remove(path)
    assert aside.exists() and backups.names_pictures(path)
    backups.remove(path, aside=True)
    assert not aside.exists()


async def test_a_backup_is_made_once_a_day_and_the_newest_two_stay(path: Path, qloop: Loop) -> None:
    found: list[list[Path]] = []
    with opened(path) as database:
        for days in (0, 0, 1, 1, -1):
            for backup in backups.backups(path):
                moment = backup.stat().st_mtime - days * backups.DAY_S
                os.utime(backup, (moment, moment))
            await database.back_up_daily()
            found.append(backups.backups(path))
    assert [len(each) for each in found] == [1, 1, 2, 2, 2]
    assert found[0] == found[1] and found[2][1:] == found[0] and found[0][0] not in found[3]
    # A clock that was ahead when the newest one was made.
    assert found[4][1:] == found[3][:1]
    for backup in found[4]:
        assert backup.stat().st_mode & 0o777 == 0o600 and all_texts(backup) == all_texts(path)


@pytest.mark.parametrize("failing", ["the disk", "a crash"])
async def test_H7_a_backup_that_fails_leaves_none_and_the_older_ones_stay(
    path: Path, qloop: Loop, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    error = KeyboardInterrupt() if failing == "a crash" else OSError(28, "No space left on device")

    def fail(*_: object) -> None:
        raise error

    with opened(path) as database:
        await database.back_up_daily()
        before = backups.backups(path)
        os.utime(before[0], (0, 0))
        monkeypatch.setattr(backups, "rename", fail)
        with contextlib.suppress(KeyboardInterrupt):
            await database.back_up_daily()
        assert backups.backups(path) == before
        monkeypatch.undo()
    if failing == "a crash":
        assert list(path.parent.glob("*unfinished*"))
    with opened(path):
        assert list(path.parent.glob("*unfinished*")) == []


def test_H7_copies_of_a_clock_that_was_ahead_push_out_no_new_one(path: Path) -> None:
    for year in (2098, 2099):
        shutil.copy(path, path.with_name(f"chats.copy-{year}0101-000000-000000.db"))
    with closing(sqlite3.connect(path)) as connection:
        backups.make(connection, path)
        # A clock that is behind leaves two copies too.
        ahead, made = backups.backups(path)
        backups.make(connection, path)
    assert "2098" in ahead.name
    assert len(backups.backups(path)) == 2 and backups.backups(path)[1] == made


def test_H7_a_damaged_file_pushes_out_no_backup(path: Path) -> None:
    zero_page(path, root_of(path, "messages_of_chat"))
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.DatabaseError):
        backups.make(connection, path)
    assert backups.backups(path) == [] and list(path.parent.glob("*unfinished*")) == []
