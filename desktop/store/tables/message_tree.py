"""Changes to a chat's tree of messages: delete, restore, edit, insert, move.

A deleted message keeps its place and is skipped. Deleted for good, its empty row stays: below a
question there are replies only, and below a reply questions.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from core.api.chat import ReplyIds
from desktop.store.tables import chats, fields, messages, replies
from desktop.store.tables.records import DeletedMessages, Message, Reply, ReplyState


def delete(
    connection: sqlite3.Connection, chat: int, message: int, answers: bool
) -> DeletedMessages | None:
    """With `answers` also all replies to it. None if it is gone."""
    nodes = messages.tree_of(connection, chat)
    if all(node.id != message for node in nodes):
        return None
    doomed = [message]
    if answers:
        below = [node.id for node in nodes if node.parent == message]
        doomed += [each for each in below if messages.has_reply_row(connection, each)]
    now = time.time()
    connection.executemany(
        "UPDATE messages SET deleted = ? WHERE id = ?", [(now, each) for each in doomed]
    )
    _keep_left_out(connection, chat)
    found = (each for each in deleted(connection) if (each.chat, each.deleted) == (chat, now))
    return next(found, None)


def restore(connection: sqlite3.Connection, gone: DeletedMessages) -> None:
    """Restore and show what was deleted together."""
    rows = connection.execute(
        "UPDATE messages SET deleted = NULL WHERE chat = ? AND deleted = ? RETURNING chosen, id",
        (gone.chat, gone.deleted),
    ).fetchall()
    if rows:
        # Of several replies, the one that was shown.
        messages.choose_path(connection, max(rows)[1])


def deleted(connection: sqlite3.Connection) -> list[DeletedMessages]:
    """The trash without chats, latest first; messages deleted together are one entry."""
    rows = connection.execute(
        "SELECT m.chat, m.deleted, count(*), min(m.id) FROM messages AS m"
        " JOIN chats AS c ON c.id = m.chat AND c.deleted IS NULL"
        " WHERE m.deleted > 0 GROUP BY m.chat, m.deleted ORDER BY m.deleted DESC"
    ).fetchall()
    return [
        DeletedMessages(chat, _title(connection, first), fields.moment(moment), count)
        for chat, moment, count, first in rows
    ]


def purge(
    connection: sqlite3.Connection,
    gone: DeletedMessages | None = None,
    before: float | None = None,
) -> bool:
    """Delete messages of the trash, only `gone` or those deleted `before`; returns True if there
    were any.

    Their chats get new keys, and the engine forgets the old ones.
    """
    rows = connection.execute(
        "UPDATE messages SET text = '', deleted = 0 WHERE deleted > 0"
        " AND (?1 IS NULL OR (chat = ?1 AND deleted = ?2)) AND (?3 IS NULL OR deleted < ?3)"
        " RETURNING id, chat",
        (gone.chat if gone else None, gone.deleted if gone else None, before),
    ).fetchall()
    ids = [(message,) for message, _ in rows]
    connection.executemany(
        "UPDATE replies SET reasoning = '', ids = NULL, tokenizer = NULL, pauses = NULL,"
        " error = NULL, stats = NULL, format = NULL, model = NULL WHERE message = ?",
        ids,
    )
    for table in ("reply_parts", "message_pictures", "message_documents"):
        connection.executemany(f"DELETE FROM {table} WHERE message = ?", ids)
    for chat in {chat for _, chat in rows}:
        connection.execute("INSERT INTO forgets (key) SELECT key FROM chats WHERE id = ?", (chat,))
        connection.execute("UPDATE chats SET key = ? WHERE id = ?", (chats.new_key(), chat))
    return bool(rows)


def edit_reply(
    connection: sqlite3.Connection, message: Message, text: str, ids: ReplyIds | None
) -> int:
    """Returns the id of a new version of the reply."""
    assert message.reply is not None
    chats.touch(connection, message.chat)
    before = message.reply
    edited = Reply(
        ReplyState.COMPLETE,
        before.reasoning,
        ids,
        "stop",
        model=before.model,
        edited=True,
    )
    return _add_reply(connection, message.chat, message.parent, text, edited, of=message.id)


def insert(
    connection: sqlite3.Connection, chat: int, parent: int | None, question: str, answer: str
) -> None:
    """Insert a question, a reply or both below `parent`, above what followed."""
    fitting = partial(messages.fitting_parent, connection, chat)
    following = [
        each
        for (each,) in connection.execute(
            "SELECT id FROM messages WHERE chat = ? AND parent IS ?", (chat, parent)
        )
    ]
    chats.touch(connection, chat)
    # What follows is a question, unless it follows one.
    following_replies = parent is not None and not messages.has_reply_row(connection, parent)
    end = parent
    if question:
        end = messages.add_message(connection, chat, fitting(end, is_reply=False), question)
    if answer:
        reply = Reply(ReplyState.COMPLETE, finish_reason="stop", edited=True)
        end = _add_reply(connection, chat, fitting(end, is_reply=True), answer, reply)
    if following:
        _move(connection, following, fitting(end, following_replies))


@dataclass(frozen=True, slots=True)
class Moved:
    chat: int
    children: tuple[int, ...]
    source: int
    target: int

    @property
    def undone(self) -> Moved:
        return Moved(self.chat, self.children, self.target, self.source)


def followers(connection: sqlite3.Connection, message: Message) -> Moved | None:
    """The messages below another version of `message`, the one shown last, that could follow this
    one. None if it has followers, or no other has."""
    nodes = messages.tree_of(connection, message.chat)
    parents = {node.parent for node in nodes}
    by_id = {node.id: node for node in nodes}
    others = [
        by_id[each]
        for each in message.siblings
        if each != message.id
        and each in parents
        and messages.has_reply_row(connection, each) is message.is_reply
    ]
    if message.id in parents or not others:
        return None
    source = max(others, key=lambda node: node.chosen).id
    below = connection.execute("SELECT id FROM messages WHERE parent = ?", (source,))
    return Moved(message.chat, tuple(each for (each,) in below), source, message.id)


def move(connection: sqlite3.Connection, moved: Moved) -> None:
    _move(connection, moved.children, moved.target)
    messages.choose(connection, moved.target)


def _move(connection: sqlite3.Connection, children: Sequence[int], parent: int | None) -> None:
    connection.executemany(
        "UPDATE messages SET parent = ? WHERE id = ?", [(parent, each) for each in children]
    )


def _add_reply(
    connection: sqlite3.Connection,
    chat: int,
    parent: int | None,
    text: str,
    reply: Reply,
    of: int | None = None,
) -> int:
    """In the format of the reply `of`; returns the id."""
    new = messages.insert(connection, chat, parent, text)
    connection.execute(
        "INSERT INTO replies (message, state, format)"
        " VALUES (?, ?, (SELECT format FROM replies WHERE message = ?))",
        (new, reply.state, of),
    )
    replies.save(connection, new, text, reply)
    return new


def _keep_left_out(connection: sqlite3.Connection, chat: int) -> None:
    """If the last message left out of the prompt was deleted, the one above takes its place."""
    nodes = connection.execute(
        "WITH RECURSIVE above (id, parent, deleted) AS ("
        " SELECT m.id, m.parent, m.deleted FROM messages AS m JOIN chats AS c ON c.left_out = m.id"
        " WHERE c.id = ?1 UNION SELECT m.id, m.parent, m.deleted FROM messages AS m"
        " JOIN above ON m.id = above.parent WHERE above.deleted IS NOT NULL)"
        " SELECT id FROM above WHERE deleted IS NULL",
        (chat,),
    ).fetchone()
    chats.leave_out(connection, chat, nodes[0] if nodes else None)


def _title(connection: sqlite3.Connection, message: int) -> str:
    (text,) = connection.execute("SELECT text FROM messages WHERE id = ?", (message,)).fetchone()
    return chats.title_from(fields.text(text))
