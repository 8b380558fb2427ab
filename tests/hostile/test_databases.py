"""Damaged files of chats: each opens or is refused by name, and loses only what was hit."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store.database import open_or_salvage
from desktop.store.tables import chats, drafts, messages, pictures, turns
from desktop.store.tables import pending_deletions as forgets
from desktop.store.tables.faults import StoreError
from tests.hostile.counts import first_quick, mutants
from tests.hostile.databases import (
    WORDS,
    Files,
    mutant,
    on_untouched_pages,
    readable_by_sqlite,
    texts_by_id,
    whole_files,
)

COUNT = 1_000
# In one test each, so that two processes can share them.
SHARES = 10


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Files, Files, dict[int, str]]:
    """The files closed, the files after a power cut, and every text by its message."""
    folder = tmp_path_factory.mktemp("whole")
    closed, crashed = whole_files(folder)
    return closed, crashed, texts_by_id(folder / "chats.db")


@pytest.mark.parametrize("share", first_quick(range(SHARES)))
def test_H7_no_damage_ends_the_app_or_costs_more_than_it_hit(
    whole: tuple[Files, Files, dict[int, str]],
    tmp_path: Path,
    share: int,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    closed, crashed, texts = whole
    for number in range(share, mutants(COUNT), SHARES):
        files = mutant(number, closed, crashed)
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            survivors = readable_by_sqlite(files, tmp_path, texts)
            survivors |= on_untouched_pages(files, closed, tmp_path)
            with caplog.at_level(logging.DEBUG):
                said = check(files, folder / "chats.db", survivors)
            assert said != "no way on"
        except Exception as error:
            raise AssertionError(f"mutant {number}") from error
        assert not any(word in said + caplog.text for word in WORDS), number
        caplog.clear()
    out, err = capfd.readouterr()
    assert not any(word in out + err for word in WORDS)


def check(files: Files, path: Path, survivors: set[str]) -> str:
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
    left = set(texts_by_id(path).values())
    assert survivors <= left, {text[:40] for text in survivors - left}
    connection, later = open_or_salvage(path)
    connection.close()
    assert later == ""
    return notice


def assert_untouched(files: Files, path: Path) -> None:
    found = Files.read(path)
    assert found.data == files.data and (found.log or b"") == (files.log or b"")


def assert_kept(files: Files, path: Path) -> None:
    """What was damaged lies beside the new file as it was."""
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
    """What the window does with a file: read everything, and write to every chat."""
    messages.stop_running(connection)
    drafts.stored(connection)
    forgets.first(connection)
    for chat in chats.listed(connection):
        found = messages.read_chat(connection, chat.id)
        assert found is not None and len(found.path) == len({each.id for each in found.path})
        turns.append_turn(connection, chat.id, "going on")
    chats.purge(connection)
    pictures.collect_garbage(connection)
