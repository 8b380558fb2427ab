"""Rows that are lost are marked where they were, and all that is left can be reached."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store.recovery.pages import Pages
from desktop.store.tables import chats, fields, turns
from tests.desktop.conftest import Loop
from tests.desktop.store.damage import (
    CHATS,
    PAGE,
    SECRET,
    TURNS,
    all_texts,
    assert_others_whole,
    opened,
    paths_of,
    root_of,
    shown,
    texts_of,
    zero_page,
)


def lose(path: Path, change: str) -> None:
    """Rows that are simply gone, in a file that SQLite finds damaged."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        connection.commit()
    zero_page(path, root_of(path, "messages_of_chat"))


def test_H7_a_lost_message_is_marked_where_it_was(path: Path, qloop: Loop) -> None:
    lose(path, "DELETE FROM messages WHERE text LIKE '%answer 2.2%' OR text LIKE '%question 2.3%'")
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert_others_whole(found, but=2)
        path_2 = found[f"{SECRET} title 2"]
        expected = shown(2)
        expected[3] = expected[4] = fields.DAMAGED
        assert texts_of(path_2) == expected
        assert [each.is_reply for each in path_2.path] == [False, True] * TURNS
        assert path_2.path[3].reply is not None and path_2.path[3].reply.ids is not None
        assert "2 messages could not be read and are marked" in database.notice


def test_H7_a_lost_reply_row_leaves_a_reply(path: Path, qloop: Loop) -> None:
    lose(path, "DELETE FROM replies WHERE message % 3 = 0")
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert_others_whole(found, but=0)
        for one in found.values():
            assert [each.is_reply for each in one.path] == [False, True] * TURNS


def test_H7_a_chat_whose_row_is_lost_gets_a_name_and_its_messages(path: Path, qloop: Loop) -> None:
    lose(path, "DELETE FROM chats WHERE title LIKE '%title 2'")
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert_others_whole(found, but=2)
        (title,) = [
            title for title in found if title.startswith("Recovered: zanzibar question 2.1")
        ]
        assert texts_of(found[title]) == shown(2) and len(found[title].key) == 32
        assert "1 chat has lost its name" in database.notice
        # The key of a chat that was deleted may be lost as well; so nothing read is kept.
        queued = qloop.run(database.run(lambda c: c.execute("SELECT key FROM forgets").fetchall()))
        assert queued[-1] == (None,)


@pytest.mark.parametrize("chat", ["chat + 1", "chat + 77", "-1", "9223372036854775807"])
@pytest.mark.parametrize("text", ["question 2.1", "answer 2.1", "question 2.4", "otherwise 2"])
def test_H7_a_message_with_a_damaged_chat_stays_in_its_conversation(
    path: Path, qloop: Loop, chat: str, text: str
) -> None:
    lose(path, f"UPDATE messages SET chat = {chat} WHERE text LIKE '%{text}%'")
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert {title: texts_of(one) for title, one in found.items()} == {
            f"{SECRET} title {number}": shown(number) for number in range(1, CHATS + 1)
        }


@pytest.mark.parametrize("parent", ["parent - 20", "id", "id + 5", "-9", "1 << 62"])
def test_H7_a_message_with_a_damaged_parent_can_be_reached(
    path: Path, qloop: Loop, parent: str
) -> None:
    lose(path, f"UPDATE messages SET parent = {parent} WHERE text LIKE '%question 3.3%'")
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert {title: texts_of(one) for title, one in found.items()} == {
            f"{SECRET} title {number}": shown(number) for number in range(1, CHATS + 1)
        }


def test_H7_a_message_that_took_another_ones_id_costs_neither(path: Path, qloop: Loop) -> None:
    """In each leaf of messages the first takes the id of the second."""
    whole = sorted(filter(None, all_texts(path)))
    data = bytearray(path.read_bytes())
    with closing(Pages(path)) as pages:
        leaves = [number for number in range(1, pages.count + 1) if pages.kind(number) == 13]
        cells = {number: [each for each in pages.cells(number) if each] for number in leaves}
    changed = 0
    for number, found in cells.items():
        if found and len(found[0].types) == 6 and len(found) > 1 and found[1].rowid < 128:
            place = (number - 1) * PAGE + found[0].start - 1
            assert data[place] == found[0].rowid
            data[place] = found[1].rowid
            changed += 1
    assert changed > 3
    path.write_bytes(data)
    with opened(path) as database:
        assert "was damaged" in database.notice
    assert set(whole) <= set(all_texts(path))


def test_H7_ids_that_qt_cannot_carry_are_given_anew(path: Path, qloop: Loop) -> None:
    lose(path, f"UPDATE messages SET id = {2**40} WHERE text LIKE '%otherwise 3%'")
    with opened(path) as database:
        found = paths_of(database, qloop)
        assert any(f"{SECRET} otherwise 3" in texts_of(one) for one in found.values())
        turn = qloop.run(database.run(turns.append_turn, None, "one more"))
        assert turn.reply < 2**31


def test_H7_a_damaged_time_of_deletion_deletes_nothing(path: Path, qloop: Loop) -> None:
    lose(path, "UPDATE chats SET deleted = 97.0 WHERE title LIKE '%title 2'")
    with opened(path) as database:
        qloop.run(database.run(chats.purge))
        assert len(paths_of(database, qloop)) == CHATS


def test_H7_a_deleted_chat_stays_deleted(path: Path, qloop: Loop) -> None:
    lose(path, f"UPDATE chats SET deleted = {time.time()} WHERE title LIKE '%title 2'")
    with opened(path) as database:
        assert len(paths_of(database, qloop)) == CHATS - 1
