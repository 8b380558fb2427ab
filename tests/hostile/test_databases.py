"""Damaged files of chats: each opens or is refused by name, and loses only what was hit."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from desktop.store import backups
from desktop.store.database import open_database, open_or_salvage
from desktop.store.tables import attachments, chats, drafts, messages, replies
from desktop.store.tables.errors import StoreError
from tests.hostile.counts import mutants
from tests.hostile.databases import (
    WORDS,
    Files,
    mutant,
    readable_by_sqlite,
    texts_by_id,
    whole_files,
)

QUICK, SHARE = 12, 44
ALL = mutants(1_000)


@dataclass(frozen=True)
class Whole:
    """The files closed and as a power cut leaves them, a backup, and every text by its message."""

    closed: Files
    crashed: Files
    backup: Path
    texts: dict[int, str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    closed, crashed = whole_files(folder)
    texts = texts_by_id(folder / "chats.db")
    path = folder / "backed up" / "chats.db"
    path.parent.mkdir()
    closed.write(path)
    with closing(open_database(path)) as connection:
        backups.make(connection, path)
    return Whole(closed, crashed, backups.backups(path)[0], texts)


@pytest.mark.parametrize(
    "numbers",
    [
        range(QUICK),
        *(
            pytest.param(range(start, min(start + SHARE, ALL)), marks=pytest.mark.slow)
            for start in range(QUICK, ALL, SHARE)
        ),
    ],
    ids=lambda numbers: f"from {numbers.start}",
)
def test_H7_no_damage_ends_the_app_or_costs_more_than_it_hit(
    whole: Whole,
    tmp_path: Path,
    numbers: range,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for number in numbers:
        files = mutant(number, whole.closed, whole.crashed)
        path = tmp_path / str(number) / "chats.db"
        path.parent.mkdir()
        try:
            survivors = readable_by_sqlite(files, tmp_path, whole.texts)
            with_backup = number % 2 == 1
            if with_backup:
                shutil.copy2(whole.backup, path.with_name(whole.backup.name))
            with caplog.at_level(logging.DEBUG):
                said = check(files, path, survivors, whole.backup if with_backup else None)
            assert said != "no way on"
        except Exception as error:
            raise AssertionError(f"mutant {number}") from error
        assert not any(word in said + caplog.text for word in WORDS), number
        caplog.clear()
    out, err = capfd.readouterr()
    assert not any(word in out + err for word in WORDS)


def check(files: Files, path: Path, survivors: set[str], backup: Path | None) -> str:
    """Open a mutant and use it; returns all that was said."""
    files.write(path)
    try:
        connection, notice = open_or_salvage(path)
    except StoreError as refusal:
        assert_untouched(files, path)
        # The user may begin beside it.
        return f"{refusal.title} {refusal.message}" if refusal.blames_file else "no way on"
    with closing(connection):
        if notice:
            assert_kept(files, path)
            assert_connected(connection)
        use(connection)
    left = texts_by_id(path)
    if notice and backup is not None:
        assert texts_by_id(backup).keys() <= left.keys()
    missing = survivors - set(left.values())
    assert not missing, {text[:40] for text in missing}
    connection, later = open_or_salvage(path)
    connection.close()
    assert later == ""
    return notice


def assert_untouched(files: Files, path: Path) -> None:
    found = Files.read(path)
    assert found.data == files.data and (found.log or b"") == (files.log or b"")


def assert_kept(files: Files, path: Path) -> None:
    """Assert that the damaged file was kept unchanged next to the new one."""
    (kept,) = {Path(str(each).removesuffix("-wal")) for each in path.parent.glob("*.damaged-*")}
    assert_untouched(files, kept)


def assert_connected(connection: sqlite3.Connection) -> None:
    """Every message can be reached from its chat, and questions and replies alternate."""
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    rows = connection.execute(
        "SELECT id, chat, parent, id IN (SELECT message FROM replies) FROM messages"
    ).fetchall()
    known = {number: (chat, is_reply) for number, chat, _, is_reply in rows}
    for number, chat, parent, is_reply in rows:
        assert parent is None or (parent < number and known[parent] == (chat, not is_reply))


def use(connection: sqlite3.Connection) -> None:
    """Use a file like the window: read everything, and write to every chat."""
    replies.stop_running(connection)
    drafts.stored(connection)
    chats.next_to_forget(connection)
    for chat in chats.listed(connection):
        found = messages.read_chat(connection, chat.id)
        assert found is not None and len(found.path) == len({each.id for each in found.path})
        messages.append_turn(connection, chat.id, "going on")
    chats.purge(connection)
    attachments.collect_pictures(connection)
