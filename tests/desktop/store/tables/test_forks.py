from __future__ import annotations

import sqlite3

from core.api.chat import ReplyIds
from core.api.reply_format import ReplyFormat
from desktop.store.tables import attachments, chats, forks, messages, replies
from desktop.store.tables.records import Begin, Picture, Reply, ReplyState
from tests.desktop.store.tables.conftest import path_of, texts

PICTURE = Picture("a" * 64, "heron.png", (4, 4), (32, 32), 1, b"png")
SCHEMA = ReplyFormat(kind="json_schema", text='{"type": "array"}')
IDS = ReplyIds.pack([1, 2], "t" * 64, starts_in_reasoning=True)


def answered(connection: sqlite3.Connection, chat: int | None, text: str) -> messages.Turn:
    turn = messages.append_turn(connection, chat, text, [PICTURE])
    reply = Reply(ReplyState.COMPLETE, "hm", IDS, "stop")
    replies.save(connection, turn.reply, f"on {text}", reply)
    return turn


def test_a_fork_at_a_reply_ends_with_it_and_is_told_the_same(
    connection: sqlite3.Connection,
) -> None:
    first = answered(connection, None, "one")
    chats.instruct(connection, first.chat, "Be brief.")
    second = answered(connection, first.chat, "two")
    answered(connection, first.chat, "three")
    made = forks.fork(connection, first.chat, second.reply)
    assert made is not None and (made.text, made.shown) == ("", ())
    old, new = path_of(connection, first.chat), path_of(connection, made.chat)
    assert texts(connection, made.chat) == ["one", "on one", "two", "on two"]
    assert [each.reply for each in new.path] == [each.reply for each in old.path[:4]]
    assert [each.pictures for each in new.path] == [each.pictures for each in old.path[:4]]
    assert (new.created, new.system) == (old.created, "Be brief.")
    assert new.key != old.key and len(new.key) == 32
    listed = [(each.title, each.forked) for each in chats.listed(connection)]
    assert listed == [("one", True), ("one", False)]


def test_a_fork_follows_the_alternatives_that_are_shown(connection: sqlite3.Connection) -> None:
    turn = answered(connection, None, "one")
    other = messages.add_alternative(connection, turn.chat, turn.message)
    replies.save(connection, other.reply, "otherwise", Reply(ReplyState.COMPLETE))
    made = forks.fork(connection, turn.chat, other.reply)
    assert made is not None and texts(connection, made.chat) == ["one", "otherwise"]
    assert [len(each.siblings) for each in path_of(connection, made.chat).path] == [1, 1]
    assert forks.fork(connection, turn.chat, turn.reply) is None


def test_a_fork_at_a_users_message_puts_it_into_the_composer(
    connection: sqlite3.Connection,
) -> None:
    first = answered(connection, None, "one")
    second = answered(connection, first.chat, "two")
    made = forks.fork(connection, first.chat, second.message)
    assert made is not None and (made.text, made.shown) == ("two", (PICTURE,))
    assert texts(connection, made.chat) == ["one", "on one"]


def test_a_fork_of_a_reply_on_its_way_is_a_stopped_one_in_the_same_format(
    connection: sqlite3.Connection,
) -> None:
    turn = messages.append_turn(connection, None, "one", begin=Begin(format=SCHEMA))
    made = forks.fork(connection, turn.chat, turn.reply)
    assert made is not None
    path = path_of(connection, made.chat)
    reply = path.path[-1].reply
    assert reply is not None and reply.state is ReplyState.STOPPED
    assert reply.format == path.format == SCHEMA
    told = forks.begin_from(connection, turn.chat, "It was long.", None)
    assert told is not None and path_of(connection, told.chat).format == SCHEMA


def test_a_fork_is_not_told_what_its_chat_is_not_told(connection: sqlite3.Connection) -> None:
    first = answered(connection, None, "one")
    second = answered(connection, first.chat, "two")
    chats.leave_out(connection, first.chat, first.reply)
    late, early = (
        forks.fork(connection, first.chat, reply) for reply in (second.reply, first.message)
    )
    assert late is not None and early is not None
    assert [each.text for each in path_of(connection, late.chat).in_prompt] == ["two", "on two"]
    assert path_of(connection, early.chat).left_out is None


def test_deleting_either_leaves_the_other_whole(connection: sqlite3.Connection) -> None:
    turn = answered(connection, None, "one")
    made = forks.fork(connection, turn.chat, turn.reply)
    assert made is not None
    chats.delete(connection, turn.chat)
    chats.purge(connection)
    assert attachments.collect_pictures(connection) == {PICTURE.digest}
    assert texts(connection, made.chat) == ["one", "on one"]
    assert path_of(connection, made.chat).path[0].pictures == (PICTURE,)
