"""The form of replies is a chat's, a draft's where no chat is yet, and each reply's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.api.reply_format import ReplyFormat
from desktop.store.database import open_database
from desktop.store.tables import chats, drafts, forks, messages, turns
from desktop.store.tables.records import ChatPath, Reply, ReplyState
from desktop.store.tables.schema import MIGRATIONS, script

JSON = ReplyFormat(kind="json")
SCHEMA = ReplyFormat(kind="json_schema", text='{"type": "array"}')


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_database(tmp_path / "chats.db")
    yield opened
    opened.close()


def path_of(connection: sqlite3.Connection, chat: int) -> ChatPath:
    found = messages.read_chat(connection, chat)
    assert found is not None
    return found


def formats(path: ChatPath) -> list[ReplyFormat | None]:
    return [message.reply.format for message in path.path if message.reply]


def test_a_reply_keeps_the_form_it_was_written_in(connection: sqlite3.Connection) -> None:
    first = turns.append_turn(connection, None, "one", reply_format=SCHEMA)
    messages.save_reply(connection, first.reply, "[]", Reply(ReplyState.COMPLETE))
    chats.ask_for(connection, first.chat, JSON)
    turns.append_turn(connection, first.chat, "two")
    chats.ask_for(connection, first.chat, None)
    turns.append_turn(connection, first.chat, "three")
    found = path_of(connection, first.chat)
    assert formats(found) == [SCHEMA, JSON, None]
    assert found.format is None


def test_another_reply_has_the_form_in_force_then(connection: sqlite3.Connection) -> None:
    turn = turns.append_turn(connection, None, "one", reply_format=SCHEMA)
    chats.ask_for(connection, turn.chat, JSON)
    turns.add_alternative(connection, turn.chat, turn.message)
    assert formats(path_of(connection, turn.chat)) == [JSON]


def test_a_fork_and_a_summarys_chat_go_on_in_the_same_form(connection: sqlite3.Connection) -> None:
    turn = turns.append_turn(connection, None, "one", reply_format=SCHEMA)
    made = forks.fork(connection, turn.chat, turn.reply)
    assert made is not None
    assert path_of(connection, made.chat).format == SCHEMA
    assert formats(path_of(connection, made.chat)) == [SCHEMA]
    told = forks.begin_from(connection, turn.chat, "It was long.", None)
    assert told is not None
    assert path_of(connection, told.chat).format == SCHEMA


def test_the_draft_of_a_chat_to_come_holds_its_form(connection: sqlite3.Connection) -> None:
    drafts.save(connection, None, "", "", "k", [], SCHEMA)
    assert [draft.format for draft in drafts.stored(connection)] == [SCHEMA]


def test_a_form_that_only_a_newer_version_knows_leaves_the_chat_readable(
    connection: sqlite3.Connection,
) -> None:
    turn = turns.append_turn(connection, None, "one")
    connection.execute("""UPDATE chats SET format = '{"kind": "poem"}'""")
    connection.execute("""UPDATE replies SET format = '{"kind": "poem"}'""")
    found = path_of(connection, turn.chat)
    assert (found.format, formats(found)) == (None, [None])


def test_replies_of_an_earlier_version_are_free(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(f"{script(MIGRATIONS[:3])}; PRAGMA user_version = 3;")
        old.execute("INSERT INTO chats (id, title, created, used, key) VALUES (1, 'a', 0, 0, 'k')")
        old.execute(
            "INSERT INTO messages (id, chat, text, created, chosen) VALUES (1, 1, 'q', 0, 1)"
        )
        old.execute(
            "INSERT INTO messages (id, chat, parent, text, created, chosen)"
            " VALUES (2, 1, 1, 'a', 0, 2)"
        )
        old.execute("INSERT INTO replies (message, state) VALUES (2, 'complete')")
        old.commit()
    with closing(open_database(path)) as connection:
        found = path_of(connection, 1)
        assert (found.format, formats(found)) == (None, [None])
