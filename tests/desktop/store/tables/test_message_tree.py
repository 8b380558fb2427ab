"""Delete, restore, edit, insert and move messages in the tree."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.export.archive import add_archive, read_archive
from desktop.store.tables import chats, forks, message_tree, messages, replies
from desktop.store.tables.messages import Turn
from desktop.store.tables.records import Message, Reply, ReplyState
from desktop.store.tables.schema import MIGRATIONS, script


def turn(connection: sqlite3.Connection, chat: int | None, question: str, answer: str) -> Turn:
    made = messages.append_turn(connection, chat, question)
    replies.save(connection, made.reply, answer, Reply(ReplyState.COMPLETE))
    return made


def chat_of(connection: sqlite3.Connection, turns: int = 3) -> tuple[int, list[Turn]]:
    made = [turn(connection, None, "q1", "a1")]
    for number in range(2, turns + 1):
        made.append(turn(connection, made[0].chat, f"q{number}", f"a{number}"))
    return made[0].chat, made


def texts(connection: sqlite3.Connection, chat: int) -> list[str]:
    return [message.text for message in messages.read_path(connection, chat)]


def shown(connection: sqlite3.Connection, chat: int, text: str) -> Message:
    return next(each for each in messages.read_path(connection, chat) if each.text == text)


def assert_roles_alternate(connection: sqlite3.Connection) -> None:
    """Salvage expects this: questions are at the root and below replies, replies below them."""
    rows = connection.execute(
        "SELECT m.id, r.message IS NOT NULL, p.id IS NOT NULL,"
        " (SELECT 1 FROM replies WHERE message = p.id) IS NOT NULL"
        " FROM messages AS m LEFT JOIN messages AS p ON p.id = m.parent"
        " LEFT JOIN replies AS r ON r.message = m.id"
    ).fetchall()
    for message, is_reply, has_parent, below_reply in rows:
        assert is_reply is not (below_reply if has_parent else 1), message


def test_a_deleted_message_is_skipped_and_comes_back(connection: sqlite3.Connection) -> None:
    chat, made = chat_of(connection)
    gone = message_tree.delete(connection, chat, made[1].message, answers=True)
    assert gone is not None
    assert texts(connection, chat) == ["q1", "a1", "q3", "a3"]
    assert message_tree.deleted(connection) == [gone]
    assert (gone.title, gone.count) == ("q2", 2)
    message_tree.restore(connection, gone)
    assert texts(connection, chat) == ["q1", "a1", "q2", "a2", "q3", "a3"]
    assert message_tree.deleted(connection) == []
    # Deleted meanwhile, it does nothing.
    message_tree.restore(connection, gone)
    assert message_tree.delete(connection, chat, 999, answers=True) is None


def test_of_several_replies_the_shown_one_comes_back(connection: sqlite3.Connection) -> None:
    chat, made = chat_of(connection, turns=2)
    messages.add_alternative(connection, chat, made[0].message)
    messages.choose(connection, made[0].reply)
    gone = message_tree.delete(connection, chat, made[0].message, answers=True)
    assert gone is not None and gone.count == 3
    message_tree.restore(connection, gone)
    assert texts(connection, chat) == ["q1", "a1", "q2", "a2"]


def test_deleted_for_good_the_parts_of_a_running_reply_are_gone(
    connection: sqlite3.Connection,
) -> None:
    made = messages.append_turn(connection, None, "q1")
    replies.append(connection, made.reply, "secret", Reply(ReplyState.RUNNING))
    message_tree.delete(connection, made.chat, made.message, answers=True)
    assert message_tree.purge(connection)
    replies.stop_running(connection)
    stored = connection.execute("SELECT text FROM messages").fetchall()
    assert stored == [("",), ("",)]


def test_one_message_goes_without_its_reply(connection: sqlite3.Connection) -> None:
    chat, made = chat_of(connection)
    message_tree.delete(connection, chat, made[0].message, answers=False)
    message_tree.delete(connection, chat, made[2].reply, answers=True)
    assert texts(connection, chat) == ["a1", "q2", "a2", "q3"]
    turn(connection, chat, "q4", "a4")
    assert texts(connection, chat) == ["a1", "q2", "a2", "q3", "q4", "a4"]
    assert_roles_alternate(connection)


def test_the_shown_branch_stays_shown_when_its_beginning_is_deleted(
    connection: sqlite3.Connection,
) -> None:
    chat, made = chat_of(connection, turns=2)
    other = messages.add_turn(connection, chat, made[0].reply, "another q2")
    messages.choose(connection, made[1].message)
    message_tree.delete(connection, chat, made[1].message, answers=False)
    assert texts(connection, chat) == ["q1", "a1", "a2"]
    path = messages.read_path(connection, chat)
    assert path[2].siblings == (made[1].reply, other.message)
    messages.choose(connection, other.message)
    assert texts(connection, chat)[:3] == ["q1", "a1", "another q2"]
    messages.choose(connection, made[1].reply)
    assert texts(connection, chat) == ["q1", "a1", "a2"]


def test_deleted_for_good_leaves_no_words_and_the_rest_whole(
    connection: sqlite3.Connection,
) -> None:
    chat, made = chat_of(connection)
    before = connection.execute("SELECT key FROM chats").fetchone()[0]
    gone = message_tree.delete(connection, chat, made[1].message, answers=True)
    message_tree.delete(connection, chat, made[2].reply, answers=False)
    assert not message_tree.purge(connection, before=1.0)
    assert message_tree.purge(connection, gone)
    assert texts(connection, chat) == ["q1", "a1", "q3"]
    stored = {text for (text,) in connection.execute("SELECT text FROM messages")}
    assert not stored & {"q2", "a2"}
    assert "a3" in stored
    assert [each.title for each in message_tree.deleted(connection)] == ["a3"]
    assert connection.execute("SELECT key FROM forgets").fetchall() == [(before,)]
    assert connection.execute("SELECT key FROM chats").fetchone()[0] != before
    assert message_tree.purge(connection)
    assert message_tree.deleted(connection) == []
    assert not message_tree.purge(connection)
    assert_roles_alternate(connection)


def test_messages_of_a_chat_in_the_trash_are_not_listed(connection: sqlite3.Connection) -> None:
    chat, made = chat_of(connection)
    message_tree.delete(connection, chat, made[1].message, answers=True)
    chats.delete(connection, chat)
    assert message_tree.deleted(connection) == []
    chats.restore(connection, chat)
    assert len(message_tree.deleted(connection)) == 1


def test_what_is_left_out_of_the_prompt_stays_left_out(connection: sqlite3.Connection) -> None:
    chat, made = chat_of(connection)
    chats.leave_out(connection, chat, made[1].reply)
    message_tree.delete(connection, chat, made[1].message, answers=True)
    path = messages.read_chat(connection, chat)
    assert path is not None
    assert [each.text for each in path.in_prompt] == ["q3", "a3"]
    message_tree.delete(connection, chat, made[0].message, answers=True)
    path = messages.read_chat(connection, chat)
    assert path is not None
    assert [each.text for each in path.in_prompt] == ["q3", "a3"]


def test_an_edited_reply_is_another_version(connection: sqlite3.Connection) -> None:
    chat, _ = chat_of(connection, turns=2)
    first = shown(connection, chat, "a1")
    new = message_tree.edit_reply(connection, first, "better", None)
    path = messages.read_path(connection, chat)
    assert [each.text for each in path] == ["q1", "better"]
    assert path[1].siblings == (first.id, new)
    assert path[1].reply is not None
    assert path[1].reply.edited
    messages.choose(connection, first.id)
    assert texts(connection, chat) == ["q1", "a1", "q2", "a2"]


@pytest.mark.parametrize(
    ("question", "answer", "inserted"),
    [("q", "a", ["q", "a"]), ("q", "", ["q"]), ("", "a", ["a"])],
)
@pytest.mark.parametrize("place", [0, 1, 2, 6])
def test_inserted_messages_are_in_their_place(
    connection: sqlite3.Connection, question: str, answer: str, inserted: list[str], place: int
) -> None:
    chat, _ = chat_of(connection)
    before = messages.read_path(connection, chat)
    parent = before[place - 1].id if place else None
    message_tree.insert(connection, chat, parent, question, answer)
    was = [each.text for each in before]
    expected = [*was[:place], *inserted, *was[place:]]
    assert texts(connection, chat) == expected
    assert_roles_alternate(connection)
    # A copy has the same order, though an inserted message has a higher number than what follows.
    archived = read_archive(connection, chat)
    assert archived is not None
    copy = add_archive(connection, archived, {})
    assert texts(connection, copy) == expected
    assert_roles_alternate(connection)


def test_followers_move_to_another_version_and_back(connection: sqlite3.Connection) -> None:
    chat, _ = chat_of(connection)
    message_tree.edit_reply(connection, shown(connection, chat, "a1"), "better", None)
    moved = message_tree.followers(connection, shown(connection, chat, "better"))
    assert moved is not None
    message_tree.move(connection, moved)
    assert texts(connection, chat) == ["q1", "better", "q2", "a2", "q3", "a3"]
    # What has followers takes no others.
    assert message_tree.followers(connection, shown(connection, chat, "better")) is None
    message_tree.move(connection, moved.undone)
    assert texts(connection, chat) == ["q1", "a1", "q2", "a2", "q3", "a3"]
    assert message_tree.followers(connection, shown(connection, chat, "a3")) is None
    assert_roles_alternate(connection)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["delete", "with answers", "restore", "insert", "edit", "ask", "fork"]),
        st.integers(0, 30),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(CHANGES)
def test_U2_any_changes_leave_a_tree_that_an_export_copies(
    changes: list[tuple[str, int]],
) -> None:
    with sqlite3.connect(":memory:", isolation_level=None) as connection:
        connection.executescript(messages_schema())
        chat, _ = chat_of(connection, turns=2)
        for kind, place in changes:
            path = messages.read_path(connection, chat)
            chosen = path[place % len(path)] if path else None
            change(connection, chat, kind, place, chosen)
        assert_roles_alternate(connection)
        archived = read_archive(connection, chat)
        assert archived is not None
        copy = add_archive(connection, archived, {})
        assert texts(connection, copy) == texts(connection, chat)
        assert_roles_alternate(connection)


def change(
    connection: sqlite3.Connection, chat: int, kind: str, place: int, chosen: Message | None
) -> None:
    if kind == "ask":
        turn(connection, chat, f"ask {place}", f"answer {place}")
    elif kind == "restore":
        gone = message_tree.deleted(connection)
        if gone:
            message_tree.restore(connection, gone[place % len(gone)])
    elif chosen is None:
        return
    elif kind in ("delete", "with answers"):
        message_tree.delete(connection, chat, chosen.id, answers=kind != "delete")
    elif kind == "insert":
        question, answer = [("q", "a"), ("q", ""), ("", "a")][place % 3]
        message_tree.insert(connection, chat, chosen.id, question, answer)
    elif kind == "edit" and chosen.is_reply:
        message_tree.edit_reply(connection, chosen, f"edited {place}", None)
    elif kind == "fork":
        made = forks.fork(connection, chat, chosen.id)
        assert made is not None


def messages_schema() -> str:
    return f"{script(MIGRATIONS)}; PRAGMA foreign_keys = ON;"
