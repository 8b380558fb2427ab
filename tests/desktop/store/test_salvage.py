from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from desktop.store import backups
from desktop.store.database import Database, open_database
from desktop.store.salvage import salvage
from desktop.store.tables import attachments, chats, drafts, fields, folders, messages
from desktop.store.tables.attachments import document_of
from desktop.store.tables.drafts import StoredDraft
from desktop.store.tables.errors import SalvageError
from desktop.store.tables.records import Document
from desktop.store.tables.schema import MIGRATIONS, script
from tests.desktop.conftest import Loop
from tests.desktop.store.damage import (
    CHATS,
    PAGE,
    SECRET,
    TURNS,
    all_texts,
    assert_others_whole,
    damaged_files,
    opened,
    paths_of,
    picture,
    replace_bytes,
    root_of,
    shown,
    texts_of,
    write_chats,
    zero_page,
)

INDEX = "messages_of_chat"


def back_up(path: Path) -> None:
    with closing(open_database(path)) as connection:
        backups.make(connection, path)


def readable(path: Path) -> set[str]:
    found = set()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = fields.decode
        for number in range(200):
            with contextlib.suppress(sqlite3.Error):
                query = "SELECT text FROM messages WHERE id = ?"
                found |= {text for (text,) in connection.execute(query, (number,))}
    return {text for text in found if "\N{REPLACEMENT CHARACTER}" not in text}


@pytest.mark.parametrize(
    ("backed_up", "step"),
    [
        (True, 9),
        (False, 9),
        pytest.param(True, 1, marks=pytest.mark.slow),
        pytest.param(False, 1, marks=pytest.mark.slow),
    ],
)
def test_H7_a_damaged_page_costs_its_rows_and_nothing_that_a_backup_has(
    tmp_path: Path, qloop: Loop, backed_up: bool, step: int
) -> None:
    whole = tmp_path / "chats.db"
    write_chats(whole)
    if backed_up:
        back_up(whole)
    for page in range(1, whole.stat().st_size // PAGE + 1, step):
        path = tmp_path / str(page) / "chats.db"
        path.parent.mkdir()
        for file in [whole, *backups.backups(whole)]:
            shutil.copy2(file, path.with_name(file.name))
        zero_page(path, page)
        before, there = path.read_bytes(), readable(path)
        with opened(path) as database:
            notice = database.notice
            for kept in damaged_files(path):
                assert kept.read_bytes() == before and kept.stat().st_mode & 0o777 == 0o600
                assert kept.name in notice and SECRET not in notice
            found = paths_of(database, qloop)
            assert len(found) >= CHATS or not backed_up
        assert there <= set(all_texts(path))
        if backed_up and notice:
            assert len(all_texts(path)) == len(all_texts(whole))
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        with opened(path) as database:
            assert database.notice == "", "it is said once"


@pytest.mark.parametrize("part", [0, 3, 7])
def test_H7_of_a_file_that_was_cut_short_sqlite_reads_the_rest(path: Path, part: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: (len(data) // PAGE * part // 8) * PAGE + PAGE * 3 // 4])
    there = readable(path)
    with opened(path) as database:
        assert "was damaged" in database.notice
    assert there <= set(all_texts(path))


def miss_a_message(path: Path) -> None:
    """The index's last entry of the second chat becomes one of the third; the order stays."""
    start = (root_of(path, INDEX) - 1) * PAGE
    data = bytearray(path.read_bytes())
    data[data.index(b"\x05\x03\x01\x01\x02", start, start + PAGE) + 4] = 3
    path.write_bytes(data)


def count_ids_from(last: object) -> str:
    return f"UPDATE sqlite_sequence SET seq = {last} WHERE name = 'messages'"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: zero_page(path, root_of(path, INDEX)),
        miss_a_message,
        *(
            lambda path, last=last: lose(path, count_ids_from(last))
            for last in ("'x'", "NULL", 2**40, 2**63 - 1, -1)
        ),
    ],
)
def test_H7_damage_beside_the_rows_costs_nothing(
    path: Path, qloop: Loop, damage: Callable[[Path], object]
) -> None:
    whole = all_texts(path)
    damage(path)
    with opened(path) as database:
        assert f"{CHATS} chats, {len(whole)} messages" in database.notice
        assert "As far as is known, nothing is missing" in database.notice
        assert_others_whole(paths_of(database, qloop), but=0)
        assert qloop.run(database.run(messages.append_turn, 1, "going on")).reply < 1000
    assert all_texts(path)[: len(whole)] == whole


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"    reasoning TEXT NOT NULL", b"    reasonimg TEXT NOT NULL"),
        (b"CREATE TABLE replies", b"CREATE TABLE repxies"),
        (b"    reasoning TEXT NOT NULL", b"    reasoning TEXT NOX NULL"),
        # SQLite quotes it, and Python can't read what SQLite says.
        (b"CREATE TABLE replies", b"CREATE \xc5ABLE replies"),
        (b"tablereplies", b"table\xc5eplies"),
        (b"sqlite_sequence(name,seq)", b"sqlite_sequence(namelseq)"),
        (b"chat INTEGER UNIQUE REFERENCES chats", b"chat INTEGER UNIQUE REFERENCES chatz"),
    ],
)
def test_H7_a_damaged_schema_costs_no_message(
    path: Path, qloop: Loop, old: bytes, new: bytes
) -> None:
    back_up(path)
    replace_bytes(path, old, new)
    with opened(path) as database:
        assert database.notice
        assert_others_whole(paths_of(database, qloop), but=0)
        assert qloop.run(database.run(messages.append_turn, 1, "going on")).reply < 1000


def lose(path: Path, *changes: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for change in changes:
            connection.execute(change)
        connection.commit()
    zero_page(path, root_of(path, INDEX))


def test_H7_a_lost_message_is_marked_where_it_was(path: Path, qloop: Loop) -> None:
    gone = ("answer 2.2", "question 4.3", "question 1.1", "answer 1.1")
    lose(path, *(f"DELETE FROM messages WHERE text LIKE '%{text}%'" for text in gone))
    with opened(path) as database:
        found = paths_of(database, qloop)
        for chat, place in ((2, 3), (4, 4)):
            lost = found[f"{SECRET} title {chat}"]
            assert texts_of(lost) == [
                fields.DAMAGED if at == place else text for at, text in enumerate(shown(chat))
            ]
            assert [each.is_reply for each in lost.path] == [False, True] * TURNS
        # The beginning of a chat was nowhere.
        assert texts_of(found[f"{SECRET} title 1"]) == shown(1)[2:]
        assert "marked as such in the chats: 2 messages" in database.notice
        # The key of a deleted chat may be lost as well.
        queued = qloop.run(database.run(lambda c: c.execute("SELECT key FROM forgets").fetchall()))
        assert queued[-1] == (None,)


def test_H7_a_draft_that_was_sent_does_not_come_back_from_a_backup(path: Path, qloop: Loop) -> None:
    back_up(path)
    lose(path, "DELETE FROM drafts", "DELETE FROM messages WHERE text LIKE '%answer 2.2%'")
    with opened(path) as database:
        assert "restored from the backup" in database.notice
        assert texts_of(paths_of(database, qloop)[f"{SECRET} title 2"]) == shown(2)
        left = qloop.run(database.run(lambda c: c.execute("SELECT text FROM drafts").fetchall()))
    assert left == []


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM replies WHERE message % 3 = 0",
        "DELETE FROM replies",
        *(
            f"UPDATE messages SET parent = {parent} WHERE text LIKE '%question 3.3%'"
            for parent in ("parent - 20", "id", "id + 5", "-9", "1 << 62")
        ),
    ],
)
def test_H7_every_message_can_be_reached_whatever_is_lost_beside_it(
    path: Path, qloop: Loop, change: str
) -> None:
    lose(path, change)
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert_others_whole(found, but=0)
        for one in found.values():
            assert [each.is_reply for each in one.path] == [False, True] * TURNS


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM chats WHERE title LIKE '%title 2'",
        "UPDATE messages SET chat = -1 WHERE chat = 2",
        "UPDATE messages SET chat = 9223372036854775807 WHERE chat = 2",
    ],
)
def test_H7_messages_without_a_chat_get_one(path: Path, qloop: Loop, change: str) -> None:
    lose(path, change)
    with opened(path) as database:
        found = paths_of(database, qloop)
        (title,) = [each for each in found if each.startswith("Recovered: zanzibar question 2.1")]
        assert texts_of(found[title]) == shown(2) and len(found[title].key) == 32


def test_H7_another_first_message_stays_an_alternative(path: Path, qloop: Loop) -> None:
    with closing(open_database(path)) as connection:
        messages.add_turn(connection, 2, None, f"{SECRET} edited")
    lose(path, "UPDATE replies SET stats = NULL")
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert texts_of(found[f"{SECRET} title 2"]) == [f"{SECRET} edited", ""]
        assert len(found[f"{SECRET} title 2"].path[0].siblings) == 2
        assert_others_whole(found, but=2)


def test_H7_a_picture_whose_thumbnail_is_lost_is_still_sent(path: Path, qloop: Loop) -> None:
    zero_page(path, root_of(path, "pictures"))
    with opened(path) as database:
        messages = paths_of(database, qloop)[f"{SECRET} title 2"].path
        (message,) = [each for each in messages if "question 2.4" in each.text]
        assert [each.digest for each in message.pictures] == [picture(24).digest]
        assert message.pictures[0].size == (32, 32)
        assert picture(24).digest in qloop.run(database.run(attachments.collect_pictures))


@pytest.mark.parametrize("steps", [1, 2])
def test_H7_a_damaged_file_of_an_earlier_format_is_saved_too(
    tmp_path: Path, qloop: Loop, steps: int
) -> None:
    path = tmp_path / "chats.db"
    key = ", key" if steps > 1 else ""
    with closing(sqlite3.connect(path)) as old:
        old.executescript(f"{script(MIGRATIONS[:steps])}; PRAGMA user_version = {steps};")
        for number in range(1, 4):
            value = f", '{number}'" if key else ""
            old.execute(
                f"INSERT INTO chats (title, created, used{key}) VALUES (?, 5, 5{value})",
                (f"old {number}",),
            )
            old.execute(
                "INSERT INTO messages (chat, text, created, chosen) VALUES (?, ?, 5, 1)",
                (number, f"hello {number}"),
            )
        old.commit()
    zero_page(path, root_of(path, INDEX))
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert {title: texts_of(one) for title, one in found.items()} == {
            f"old {number}": [f"hello {number}"] for number in range(1, 4)
        }
        assert len({one.key for one in found.values()}) == 3


def test_H7_pins_and_the_trash_outlive_damage(path: Path, qloop: Loop) -> None:
    lose(
        path,
        "UPDATE chats SET pinned = 1 WHERE id = 1",
        f"UPDATE chats SET deleted = {time.time()} WHERE id = 2",
        # A time before the chat was begun is damage, and must not delete it for good.
        "UPDATE chats SET deleted = 97.0 WHERE id = 3",
    )
    with opened(path) as database:
        listed = qloop.run(database.run(chats.listed))
        assert sorted((chat.id, chat.pinned) for chat in listed) == [(1, 1), (3, 0), (4, 0)]
        assert [chat.id for chat in qloop.run(database.run(chats.trashed))] == [2]


@pytest.mark.parametrize("backed_up", [True, False])
def test_H7_a_file_that_is_no_database_is_kept_and_the_backup_takes_its_place(
    path: Path, qloop: Loop, backed_up: bool
) -> None:
    if backed_up:
        back_up(path)
    path.write_bytes(f"{SECRET} is no database at all".encode() * 1000)
    with opened(path) as database:
        assert SECRET not in database.notice
        if backed_up:
            assert "restored from the backup of" in database.notice
            assert_others_whole(paths_of(database, qloop), but=0)
            assert len(database.run_now(drafts.stored)) == 4
        else:
            assert "No chat could be read" in database.notice
    (kept,) = damaged_files(path)
    assert kept.read_bytes().startswith(SECRET.encode())


def test_H7_a_damaged_backup_is_passed_over(path: Path, qloop: Loop) -> None:
    for _ in range(2):
        back_up(path)
    newest, older = backups.backups(path)
    newest.write_bytes(b"\0" * PAGE)
    path.write_bytes(b"\0" * PAGE)
    with opened(path) as database:
        assert f"{datetime.fromtimestamp(older.stat().st_mtime):%Y-%m-%d %H:%M}" in database.notice
        assert_others_whole(paths_of(database, qloop), but=0)


def late_turns(path: Path, count: int) -> Path:
    """Messages in the log only, like after a power cut; returns the log."""
    log = Path(f"{path}-wal")
    with closing(open_database(path)) as connection:
        for number in range(count):
            messages.append_turn(connection, 1, f"{SECRET} late {number}")
        kept = path.read_bytes(), log.read_bytes()
    path.write_bytes(kept[0])
    log.write_bytes(kept[1])
    return log


def test_a_log_that_a_power_cut_has_torn_is_no_damage(path: Path, qloop: Loop) -> None:
    log = late_turns(path, 40)
    log.write_bytes(log.read_bytes()[:-5000])
    with opened(path) as database:
        assert database.notice == "" and damaged_files(path) == []
        assert_others_whole(paths_of(database, qloop), but=1)
    assert f"{SECRET} late 38" in all_texts(path)


@pytest.mark.parametrize(("rest", "backed_up"), [(b"", True), (b"S", True), (b"", False)])
def test_H7_a_log_without_its_file_is_kept_and_the_backup_takes_their_place(
    path: Path, qloop: Loop, rest: bytes, backed_up: bool
) -> None:
    if backed_up:
        back_up(path)
    log = late_turns(path, 40).read_bytes()
    path.write_bytes(rest)
    with opened(path) as database:
        assert "was damaged" in database.notice
        if backed_up:
            assert_others_whole(paths_of(database, qloop), but=0)
        # What the lost chats held is forgotten by the engine.
        queued = database.run_now(lambda c: c.execute("SELECT key FROM forgets").fetchall())
        assert queued[-1] == (None,)
    (kept,) = damaged_files(path)
    assert kept.read_bytes() == rest and Path(f"{kept}-wal").read_bytes() == log


@pytest.mark.parametrize("rest", [b"", None])
def test_H7_a_file_that_is_empty_or_missing_is_made_from_its_backup(
    path: Path, qloop: Loop, rest: bytes | None
) -> None:
    back_up(path)
    path.unlink() if rest is None else path.write_bytes(rest)
    with opened(path) as database:
        assert ("was missing" if rest is None else "was damaged") in database.notice
        assert_others_whole(paths_of(database, qloop), but=0)
    assert len(damaged_files(path)) == (rest is not None)


def test_H7_backups_of_a_file_put_aside_fill_no_gaps_of_the_next_one(path: Path) -> None:
    back_up(path)
    backups.set_aside(path)

    def begin(connection: sqlite3.Connection) -> None:
        messages.append_turn(connection, chats.create(connection, "new"), "the only one", ())

    with opened(path) as database:
        database.run_now(begin)
    zero_page(path, root_of(path, "messages"))
    with opened(path):
        assert not any(SECRET in text for text in all_texts(path))


def test_H7_two_damaged_files_of_one_second_are_both_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = (datetime(2025, 1, 1, 0, 0, 0, each // 2) for each in itertools.count())
    monkeypatch.setattr(backups, "datetime", SimpleNamespace(now=lambda: next(moments)))
    for _ in range(2):
        zero_page(path, root_of(path, INDEX))
        with opened(path):
            pass
    assert len(damaged_files(path)) == 2


@pytest.mark.parametrize(
    "error",
    [sqlite3.IntegrityError("x"), RuntimeError("x"), OSError(28, "No space left on device")],
)
def test_H7_saving_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    zero_page(path, 5)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("desktop.store.database.salvage", fail)
    with pytest.raises(SalvageError) as refusal:
        Database(path)
    assert refusal.value.blames_file and str(path) in refusal.value.message
    assert path.read_bytes() == before and damaged_files(path) == []
    monkeypatch.undo()
    with opened(path):
        assert len(damaged_files(path)) == 1
        assert list(path.parent.glob("*unfinished*")) == []


@pytest.mark.parametrize("step", ["link", "replace"])
def test_H7_a_crash_while_the_new_file_is_put_in_place_loses_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, qloop: Loop, step: str
) -> None:
    zero_page(path, root_of(path, INDEX))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"desktop.store.backups.os.{step}", crash)
    with pytest.raises(KeyboardInterrupt):
        Database(path)
    monkeypatch.undo()
    with opened(path) as database:
        assert_others_whole(paths_of(database, qloop), but=0)


@pytest.mark.parametrize("backed_up", [True, False])
def test_H7_a_lost_document_comes_from_the_backup_or_is_marked(
    tmp_path: Path, backed_up: bool
) -> None:
    path, new = tmp_path / "chats.db", tmp_path / "new.db"
    document = replace(document_of("a.pdf", True, "one\ftwo", source="s"), chosen=(1,))
    with closing(open_database(path)) as connection:
        chat = chats.create(connection, "A chat")
        messages.add_message(connection, chat, None, "Question", [document])
        unread = replace(document, chosen=None)
        drafts.save(connection, StoredDraft(chat, "Draft", "", (unread,)))
    if backed_up:
        back_up(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM documents")
    new.touch()
    salvage(path, new, backups.backups(path))
    with closing(open_database(new)) as connection:
        (message,) = messages.read_path(connection, chat)
        (draft,) = [each for each in drafts.stored(connection) if each.chat == chat]
    if backed_up:
        assert message.documents == (document,) and draft.shown == (replace(document, chosen=None),)
    else:
        # The chosen part of it is gone.
        assert message.documents == () and fields.DAMAGED_DOCUMENT in message.text
        (shown,) = draft.shown
        assert isinstance(shown, Document) and shown.parts == (fields.DAMAGED_DOCUMENT,)


@pytest.mark.parametrize("backed_up", [True, False])
def test_H7_a_lost_folder_comes_from_the_backup_and_never_takes_its_chats(
    tmp_path: Path, backed_up: bool
) -> None:
    path, new = tmp_path / "chats.db", tmp_path / "new.db"
    with closing(open_database(path)) as connection:
        folder = folders.create(connection, "Work")
        messages.append_turn(connection, None, "Question", folder=folder)
        made = folders.read(connection, folder)
        drafts.save(connection, StoredDraft(None, "Draft", "k", folder=made))
    if backed_up:
        back_up(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM folders")
    new.touch()
    salvage(path, new, backups.backups(path))
    with closing(open_database(new)) as connection:
        (chat,) = chats.listed(connection)
        (draft,) = drafts.stored(connection)
        assert draft.text == "Draft"
        if backed_up:
            assert chat.folder == folder and draft.folder == folders.listed(connection)[0]
        else:
            assert chat.folder is None and draft.folder is None
