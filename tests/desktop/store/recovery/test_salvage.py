"""A damaged page costs its rows; the old file is kept, and what happened is said in numbers."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from core.api.chat import ReplyIds
from desktop.store.database import Database, open_database, open_or_salvage
from desktop.store.recovery import copies
from desktop.store.tables import chats, fields, messages, pictures, turns
from desktop.store.tables.faults import (
    SalvageError,
)
from desktop.store.tables.records import Reply, ReplyState
from desktop.store.tables.schema import MIGRATIONS, script
from tests.desktop.conftest import Loop
from tests.desktop.store.damage import (
    CHATS,
    PAGE,
    SECRET,
    all_texts,
    answer,
    assert_others_whole,
    damaged_files,
    kind_of,
    opened,
    paths_of,
    picture,
    replace_bytes,
    root_of,
    shown_texts,
    texts_of,
    write_chats,
    zero_page,
)


def test_H7_a_damaged_page_costs_its_rows_and_nothing_else(tmp_path: Path, qloop: Loop) -> None:
    whole = tmp_path / "whole.db"
    write_chats(whole)
    count = whole.stat().st_size // PAGE
    assert count > 30
    unseen = 0
    for page in range(1, count + 1):
        path = tmp_path / str(page) / "chats.db"
        path.parent.mkdir()
        shutil.copy2(whole, path)
        zero_page(path, page)
        before = path.read_bytes()
        on_page = whole.read_bytes()[(page - 1) * PAGE : page * PAGE]
        with opened(path) as database:
            for kept in damaged_files(path):
                assert kept.read_bytes() == before and kept.stat().st_mode & 0o777 == 0o600
                assert kept.name in database.notice and SECRET not in database.notice
            # Of the last page of a long value nobody knows that it held anything but zeros.
            unseen += not database.notice
            found = paths_of(database, qloop)
            assert len(found) >= CHATS
        after = set(all_texts(path))
        for text in all_texts(whole):
            beginning = text[:40].encode()
            if text not in after:
                long = len(text) > PAGE
                assert long or beginning in on_page, (page, beginning)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        # It is said once.
        with opened(path) as database:
            assert database.notice == ""
    # One long text, and its ids.
    assert unseen == 2 * CHATS


@pytest.mark.parametrize("part", ["the first page", "an inner page", "an index"])
def test_H7_a_page_without_rows_costs_nothing(path: Path, qloop: Loop, part: str) -> None:
    inner = root_of(path, "messages")
    assert kind_of(path, inner) == 5
    page = {"the first page": 1, "an inner page": inner}.get(
        part, root_of(path, "messages_of_chat")
    )
    whole = all_texts(path)
    zero_page(path, page)
    with opened(path) as database:
        assert_others_whole(paths_of(database, qloop), but=0)
        assert f"{CHATS} chats with {len(whole)} messages were saved" in database.notice
        if part == "an index":
            assert "Nothing is known to be missing" in database.notice
    assert all_texts(path) == whole


@pytest.mark.parametrize("part", range(8))
def test_H7_of_a_file_that_was_cut_short_all_that_is_there_is_read(
    path: Path, qloop: Loop, part: int
) -> None:
    data = path.read_bytes()
    # In the middle of a page: its first rows are at its end, and its last ones before.
    cut = data[: (len(data) // PAGE * part // 8) * PAGE + PAGE * 3 // 4]
    path.write_bytes(cut)
    looked_at = path.with_name("copy of it.db")
    looked_at.write_bytes(cut)
    there = readable(looked_at, all_ids=200)
    with opened(path) as database:
        assert "was damaged" in database.notice
    assert there <= set(all_texts(path))


def readable(path: Path, all_ids: int) -> set[str]:
    """The texts that SQLite itself reads."""
    found = set()
    with closing(sqlite3.connect(path)) as connection:
        for number in range(all_ids):
            with contextlib.suppress(sqlite3.Error):
                query = "SELECT text FROM messages WHERE id = ?"
                row = connection.execute(query, (number,)).fetchone()
                found |= {text for (text,) in [row] if "\0" not in text} if row else set()
    return found


def test_H7_an_index_that_misses_a_message_is_found_and_made_anew(path: Path, qloop: Loop) -> None:
    # SQLite's quick check doesn't look, and the message would be missing from its chat.
    page = root_of(path, "messages_of_chat")
    data = bytearray(path.read_bytes())
    # The last entry of the second chat becomes one of the third; the order stays.
    place = data.index(b"\x05\x03\x01\x01\x02", (page - 1) * PAGE, page * PAGE)
    data[place + 4] = 3
    path.write_bytes(data)
    with opened(path) as database:
        assert_others_whole(paths_of(database, qloop), but=0)


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
def test_H7_a_damaged_schema_costs_nothing(path: Path, qloop: Loop, old: bytes, new: bytes) -> None:
    replace_bytes(path, old, new)
    with opened(path) as database:
        assert_others_whole(paths_of(database, qloop), but=0)
        assert "Nothing is known to be missing" in database.notice
        turn = qloop.run(database.run(turns.append_turn, 1, "going on"))
        assert turn.reply < 1000


@pytest.mark.parametrize("last", ["'x'", "NULL", 2**40, 2**63 - 1, -1])
def test_H7_damage_to_the_count_of_ids_keeps_nobody_from_writing(
    path: Path, qloop: Loop, last: object
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE sqlite_sequence SET seq = {last} WHERE name = 'messages'")
        connection.commit()
    with opened(path) as database:
        assert "Nothing is known to be missing" in database.notice
        turn = qloop.run(database.run(turns.append_turn, 1, "going on"))
        assert turn.reply < 1000


def test_H7_of_a_long_text_the_beginning_is_read(path: Path, qloop: Loop) -> None:
    data = path.read_bytes()
    page = data.index(f"{SECRET} answer 2.3".encode()) // PAGE + 1
    # Pages that hold nothing but this text begin with the number of the next one.
    following = next(
        number
        for number in range(page + 1, len(data) // PAGE)
        if b"because because" in data[(number - 1) * PAGE : (number - 1) * PAGE + 40]
    )
    zero_page(path, following + 2)
    with opened(path) as database:
        told = [text for one in paths_of(database, qloop).values() for text in texts_of(one)]
        (cut,) = [text for text in told if text.endswith(fields.DAMAGED_REST)]
        assert "because because" in cut and PAGE < len(cut) < LONG_TEXT
        assert len([text for text in told if text in shown_texts()]) == len(told) - 1


LONG_TEXT = len(answer(1, 3))


def test_H7_a_picture_whose_thumbnail_is_lost_is_still_sent(path: Path, qloop: Loop) -> None:
    zero_page(path, root_of(path, "pictures"))
    with opened(path) as database:
        (message,) = [
            each
            for each in paths_of(database, qloop)[f"{SECRET} title 2"].path
            if "question 2.4" in each.text
        ]
        assert [each.digest for each in message.pictures] == [picture(24).digest]
        assert message.pictures[0].size == (32, 32)
        assert picture(24).digest in qloop.run(database.run(pictures.collect_garbage))


@pytest.mark.parametrize("steps", [1, 2])
def test_H7_a_damaged_file_of_an_earlier_format_is_saved_too(
    tmp_path: Path, qloop: Loop, steps: int
) -> None:
    path = tmp_path / "chats.db"
    key = ", key" if steps > 1 else ""
    with closing(sqlite3.connect(path)) as old:
        old.executescript(f"{script(MIGRATIONS[:steps])}; PRAGMA user_version = {steps};")
        for number in range(1, 4):
            old.execute(
                f"INSERT INTO chats (title, created, used{key}) VALUES (?, 5, 5"
                f"{f', {number}' if key else ''})",
                (f"old {number}",),
            )
            old.execute(
                "INSERT INTO messages (chat, text, created, chosen) VALUES (?, ?, 5, 1)",
                (number, f"hello {number}"),
            )
        old.commit()
    zero_page(path, root_of(path, "messages_of_chat"))
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert {title: texts_of(one) for title, one in found.items()} == {
            f"old {number}": [f"hello {number}"] for number in range(1, 4)
        }
        assert len({one.key for one in found.values()}) == 3
        assert not any(chat.pinned for chat in qloop.run(database.run(chats.listed)))


def test_H7_pins_and_the_trash_outlive_damage(path: Path, qloop: Loop) -> None:
    with opened(path) as database:
        first, second, *_ = qloop.run(database.run(chats.listed))
        qloop.run(database.run(chats.pin, first.id, True))
        qloop.run(database.run(chats.delete, second.id))
    zero_page(path, root_of(path, "messages_of_chat"))
    with opened(path) as database:
        assert database.notice
        listed = qloop.run(database.run(chats.listed))
        assert [chat.id for chat in listed if chat.pinned] == [first.id]
        assert [chat.id for chat in qloop.run(database.run(chats.trashed))] == [second.id]


def test_H7_a_file_that_is_no_database_is_kept_and_said_to_hold_nothing(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    path.write_bytes(f"{SECRET} is no database at all".encode() * 1000)
    with opened(path) as database:
        assert "No chat could be read" in database.notice and SECRET not in database.notice
    (kept,) = damaged_files(path)
    assert kept.read_bytes().startswith(SECRET.encode())


def test_H7_two_damaged_files_of_one_second_are_both_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = (datetime(2025, 1, 1, 0, 0, 0, each // 2) for each in itertools.count())
    monkeypatch.setattr(copies, "_now", lambda: next(moments))
    for _ in range(2):
        zero_page(path, root_of(path, "messages_of_chat"))
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
    zero_page(path, root_of(path, "messages_of_chat"))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"desktop.store.recovery.copies.os.{step}", crash)
    with pytest.raises(KeyboardInterrupt):
        Database(path)
    monkeypatch.undo()
    with opened(path) as database:
        assert_others_whole(paths_of(database, qloop), but=0)


@pytest.mark.parametrize("stored", [True, False])
def test_H7_what_a_reply_gained_is_added_once_where_the_log_is_damaged(
    tmp_path: Path, stored: bool
) -> None:
    path, log = tmp_path / "chats.db", tmp_path / "chats.db-wal"
    copy = tmp_path / "copy" / "chats.db"
    copy.parent.mkdir()

    def reply(ids: list[int], state: ReplyState = ReplyState.RUNNING) -> Reply:
        return Reply(state, ids=ReplyIds.pack(ids, "tok", starts_in_reasoning=False))

    with closing(open_database(path)) as connection:
        turn = turns.append_turn(connection, None, "Hello")
        messages.save_reply(connection, turn.reply, "one", reply([1]))
        messages.append_to_reply(connection, turn.reply, " two", reply([2]))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # From here on only the log knows that the part belongs to the reply already.
        if stored:
            whole = reply([1, 2, 3], ReplyState.COMPLETE)
            messages.save_reply(connection, turn.reply, "one two three", whole)
        else:
            messages.read_path(connection, turn.chat)
        good = log.stat().st_size
        for number in range(6):
            chats.rename(connection, turn.chat, f"Title {number}")
        shutil.copy(path, copy)
        shutil.copy(log, copy.with_name("chats.db-wal"))
    with copy.with_name("chats.db-wal").open("r+b") as file:
        file.seek(good + 100)
        damaged = bytes([file.read(1)[0] ^ 0xFF])
        file.seek(good + 100)
        file.write(damaged)
    connection, notice = open_or_salvage(copy)
    assert "damaged" in notice
    with closing(connection):
        messages.stop_running(connection)
        last = messages.read_path(connection, turn.chat)[-1]
    assert last.reply is not None and last.reply.ids is not None
    text, ids = ("one two three", [1, 2, 3]) if stored else ("one two", [1, 2])
    assert (last.text, last.reply.ids.unpack()) == (text, ids)
