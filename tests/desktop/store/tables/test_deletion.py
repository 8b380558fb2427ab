from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store.database import open_database, truncate_log
from desktop.store.tables import attachments, chats, drafts, messages, replies
from desktop.store.tables.drafts import StoredDraft
from desktop.store.tables.records import Begin, Picture, Reply, ReplyState
from desktop.store.tables.schema import MIGRATIONS, script
from tests.desktop.store.tables.conftest import path_of

SECRET = "the heron stands in the reeds at dawn"
PICTURE = Picture("a" * 64, "heron.png", (4, 4), thumbnail=b"thumbnail of a heron")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def left_on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())


def say_much(connection: sqlite3.Connection, words: str, count: int) -> int:
    chat = chats.create(connection, words[:20])
    for number in range(count):
        turn = messages.append_turn(connection, chat, f"{words} {number}", [PICTURE])
        for length in range(1, 12):
            text = f"{words} {number} " * length * length
            reply = Reply(ReplyState.RUNNING, reasoning=text)
            replies.save(connection, turn.reply, text, reply)
    return chat


def test_deleted_words_are_in_no_byte_of_any_file(
    path: Path, connection: sqlite3.Connection
) -> None:
    kept = say_much(connection, "an innocent remark", 20)
    doomed = say_much(connection, SECRET, 40)
    drafts.save(connection, StoredDraft(doomed, SECRET, "", (PICTURE,)))
    chats.rename(connection, doomed, SECRET)
    say_much(connection, "another remark", 20)
    assert SECRET.encode() in left_on_disk(path)
    chats.delete(connection, doomed)
    chats.purge(connection)
    truncate_log(connection)
    assert SECRET.encode() not in left_on_disk(path)
    assert SECRET[:20].encode() not in left_on_disk(path)
    assert Path(f"{path}-wal").stat().st_size == 0
    assert len(messages.read_path(connection, kept)) == 40


def test_a_picture_stays_while_another_chat_or_a_draft_shows_it(
    path: Path, connection: sqlite3.Connection
) -> None:
    one, other = (say_much(connection, words, 1) for words in ("one", "other"))
    drafts.save(connection, StoredDraft(None, "", "k", (PICTURE,)))
    for chat in (one, other):
        chats.delete(connection, chat)
        chats.purge(connection)
        assert attachments.collect_pictures(connection) == {PICTURE.digest}
    drafts.remove(connection, None)
    assert attachments.collect_pictures(connection) == set()
    truncate_log(connection)
    assert PICTURE.thumbnail not in left_on_disk(path)


def test_a_purge_takes_only_what_is_deleted_and_queues_its_key(
    connection: sqlite3.Connection,
) -> None:
    keys = ["one", "two", "three"]
    one, two, three = (chats.create(connection, key, key) for key in keys)
    chats.delete(connection, one)
    chats.delete(connection, two)
    chats.purge(connection, three)
    assert chats.next_to_forget(connection) is None
    chats.purge(connection, two)
    chats.purge(connection, two)
    chats.purge(connection)
    assert [chat.id for chat in chats.listed(connection)] == [three]
    # The queue gives its oldest row until that is confirmed.
    first = chats.next_to_forget(connection)
    assert first is not None and first.key == "two" and chats.next_to_forget(connection) == first
    for _ in range(2):
        chats.confirm_forgotten(connection, first.number)
    second = chats.next_to_forget(connection)
    assert second is not None and second.key == "one"
    chats.confirm_forgotten(connection, second.number)
    assert chats.next_to_forget(connection) is None


def test_a_chat_deeper_than_sqlite_follows_triggers_can_be_deleted(
    connection: sqlite3.Connection,
) -> None:
    chat, parent = chats.create(connection, "deep"), None
    for number in range(1500):
        parent = messages.add_message(connection, chat, parent, str(number))
    chats.delete(connection, chat)
    chats.purge(connection)
    assert connection.execute("SELECT count(*) FROM messages").fetchone() == (0,)


def test_everything_goes_at_once_and_stands_for_every_key(
    path: Path, connection: sqlite3.Connection
) -> None:
    gone = say_much(connection, "gone before", 1)
    chats.delete(connection, gone)
    chats.purge(connection)
    say_much(connection, SECRET, 3)
    drafts.save(connection, StoredDraft(None, SECRET, "k", (PICTURE,), Begin(SECRET)))
    chats.delete_everything(connection)
    truncate_log(connection)
    row = chats.next_to_forget(connection)
    assert row is not None and row.key is None
    assert connection.execute("SELECT count(*) FROM forgets").fetchone() == (1,)
    assert chats.listed(connection) == [] and drafts.stored(connection) == []
    assert SECRET.encode() not in left_on_disk(path)


def old_file(path: Path, version: int, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as old:
        old.executescript(f"{script(MIGRATIONS[:version])}; PRAGMA user_version = {version};")
        for statement in statements:
            old.execute(statement)
        old.commit()


def test_a_file_of_the_first_format_gets_keys_and_loses_nothing(path: Path) -> None:
    old_file(
        path,
        1,
        *(
            f"INSERT INTO chats (title, created, used) VALUES ('chat {number}', 5, 5)"
            for number in range(3)
        ),
        "INSERT INTO messages (chat, text, created, chosen) VALUES (1, 'hello', 5, 1)",
    )
    for _ in range(2):
        with closing(open_database(path)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
            listed = [chat.title for chat in chats.listed(connection)]
            assert listed == ["chat 2", "chat 1", "chat 0"]
            keys = [key for (key,) in connection.execute("SELECT key FROM chats ORDER BY id")]
            assert len(set(keys)) == 3 and all(len(key) == 32 for key in keys)
            found = path_of(connection, 1)
            assert (found.key, found.created, found.system, found.left_out) == (
                keys[0],
                5,
                "",
                None,
            )
            assert [message.text for message in found.in_prompt] == ["hello"]


def test_a_file_of_an_early_format_keeps_its_trash_and_replies(path: Path) -> None:
    chat = "INSERT INTO chats (title, created, used, deleted, key) VALUES"
    old_file(
        path,
        2,
        *(
            f"{chat} ('chat {number}', 5, 5, {deleted}, '{number}')"
            for number, deleted in enumerate(("NULL", "7.0", "NULL"))
        ),
        "INSERT INTO messages (chat, parent, text, created, chosen)"
        " VALUES (1, NULL, 'q', 0, 1), (1, 1, 'a', 0, 2)",
        "INSERT INTO replies (message, state) VALUES (2, 'complete')",
    )
    with closing(open_database(path)) as connection:
        assert [chat.title for chat in chats.listed(connection)] == ["chat 2", "chat 0"]
        trashed = [(chat.title, chat.deleted) for chat in chats.trashed(connection)]
        assert trashed == [("chat 1", 7.0)]
        assert not any(chat.pinned for chat in chats.listed(connection))
        chats.pin(connection, 1, True)
        assert [chat.id for chat in chats.listed(connection) if chat.pinned] == [1]
        found = path_of(connection, 1)
        reply = found.path[-1].reply
        assert found.format is None and reply is not None and reply.format is None


def test_only_what_was_deleted_before_a_moment_is_purged(connection: sqlite3.Connection) -> None:
    old, new, kept = (chats.create(connection, key, key) for key in ("old", "new", "kept"))
    for chat, moment in ((old, 100.0), (new, 200.0)):
        connection.execute("UPDATE chats SET deleted = ? WHERE id = ?", (moment, chat))
    assert chats.purge(connection, before=150.0) == {old}
    assert [chat.id for chat in chats.trashed(connection)] == [new]
    assert chats.purge(connection, kept) == set()
    assert chats.purge(connection) == {new}


def test_a_key_is_another_one_for_every_chat(connection: sqlite3.Connection) -> None:
    for _ in range(20):
        chats.delete(connection, chats.create(connection, "again"))
        chats.purge(connection)
    keys = [key for (key,) in connection.execute("SELECT key FROM forgets")]
    assert len(set(keys)) == 20
