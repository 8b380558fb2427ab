"""The messages of a chat as a tree, and the shown path."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from core.api.reply_format import ReplyFormat
from core.remote.messages import Place
from desktop.store.tables import attachments, chats, drafts, fields, folders, replies
from desktop.store.tables.drafts import StoredDraft
from desktop.store.tables.records import (
    Attachment,
    Begin,
    ChatPath,
    Document,
    Message,
    ReplyState,
)


class Node(NamedTuple):
    """Among siblings the highest `chosen` is shown.

    Children of a deleted message take its place: their `chosen` begins with its own, so earlier
    choices still hold.
    """

    id: int
    parent: int | None
    chosen: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    chat: int
    message: int
    reply: int


def append_turn(
    connection: sqlite3.Connection,
    chat: int | None,
    text: str,
    shown: Sequence[Attachment] = (),
    left: StoredDraft | None = None,
    key: str = "",
    begin: Begin | None = None,
    place: Place | None = None,
    folder: int | None = None,
) -> Turn:
    """Add a turn to the shown path, without a chat to a new one with `key`, `begin`, `place` and
    `folder`. `left` is what remains of the draft."""
    drafts.remove(connection, chat)
    if chat is None:
        names = (each.name for each in shown if isinstance(each, Document))
        title = chats.title_from(text or next(names, ""))
        chat = chats.create(connection, title, key, begin, folder, titled=False)
        chats.run_at(connection, chat, place)
    if left is not None:
        drafts.save(connection, replace(left, chat=chat))
    parent = fitting_parent(connection, chat, end_of_path(connection, chat), is_reply=False)
    return add_turn(connection, chat, parent, text, shown)


def add_turn(
    connection: sqlite3.Connection,
    chat: int,
    parent: int | None,
    text: str,
    shown: Sequence[Attachment] = (),
) -> Turn:
    message = add_message(connection, chat, parent, text, shown)
    return add_alternative(connection, chat, message)


def add_alternative(connection: sqlite3.Connection, chat: int, message: int) -> Turn:
    """Add an empty, running reply in the chat's format."""
    chats.touch(connection, chat)
    reply = insert(connection, chat, message, "")
    connection.execute(
        "INSERT INTO replies (message, state, format) SELECT ?, ?, format FROM chats WHERE id = ?",
        (reply, ReplyState.RUNNING, chat),
    )
    return Turn(chat, message, reply)


def add_message(
    connection: sqlite3.Connection,
    chat: int,
    parent: int | None,
    text: str,
    shown: Sequence[Attachment] = (),
) -> int:
    """Returns the id."""
    message = insert(connection, chat, parent, text)
    attachments.attach(connection, "message", message, shown)
    return message


def fitting_parent(
    connection: sqlite3.Connection,
    chat: int,
    parent: int | None,
    is_reply: bool,
    chosen: int | None = None,
) -> int | None:
    """Returns `parent`, or an empty deleted message below it if both have the same role. `chosen`
    is set for a message that isn't the newest."""
    below_reply = parent is None or has_reply_row(connection, parent)
    if below_reply is not is_reply:
        return parent
    between = insert(connection, chat, parent, "")
    connection.execute(
        "UPDATE messages SET deleted = 0, chosen = ifnull(?, chosen) WHERE id = ?",
        (chosen, between),
    )
    if not is_reply:
        connection.execute(
            "INSERT INTO replies (message, state) VALUES (?, ?)", (between, ReplyState.STOPPED)
        )
    return between


def has_reply_row(connection: sqlite3.Connection, message: int) -> bool:
    found = connection.execute("SELECT 1 FROM replies WHERE message = ?", (message,))
    return found.fetchone() is not None


def choose(connection: sqlite3.Connection, message: int) -> None:
    _choose(connection, message, "p.deleted IS NOT NULL")


def choose_path(connection: sqlite3.Connection, message: int) -> None:
    """Show this message and all above it in place of their siblings."""
    _choose(connection, message, "1")


def _choose(connection: sqlite3.Connection, message: int, condition: str) -> None:
    """Go up while the parent fulfils the condition."""
    # The highest of all is looked for once: no index has it.
    (highest,) = connection.execute("SELECT ifnull(max(chosen), 0) FROM messages").fetchone()
    above: dict[int, None] = {}
    node: object = message
    # A damaged file may hold a circle.
    while isinstance(node, int) and node not in above:
        above[node] = None
        row = connection.execute(
            "SELECT p.id FROM messages AS m JOIN messages AS p ON p.id = m.parent"
            f" WHERE m.id = ? AND {condition}",
            (node,),
        ).fetchone()
        node = row[0] if row else None
    connection.executemany(
        "UPDATE messages SET chosen = ? WHERE id = ?", [(highest + 1, each) for each in above]
    )


def read_path(
    connection: sqlite3.Connection, chat: int, chosen: int | None = None
) -> list[Message]:
    """The shown path, or the one with `chosen`."""
    replies.merge_parts(connection, chat)
    nodes = tree_of(connection, chat)
    highest = max((node.chosen for node in nodes), default=(0,))
    nodes = [
        node._replace(chosen=(highest[0] + 1,)) if node.id == chosen else node for node in nodes
    ]
    return _read_messages(connection, shown_path(nodes))


def read_tree(connection: sqlite3.Connection, chat: int) -> list[tuple[Message, tuple[int, ...]]]:
    """All branches, parents first, without siblings, each with its `chosen`."""
    replies.merge_parts(connection, chat)
    nodes = parents_first(tree_of(connection, chat))
    read = _read_messages(connection, [(node.id, ()) for node in nodes])
    return [
        (replace(message, parent=node.parent), node.chosen)
        for message, node in zip(read, nodes, strict=True)
    ]


def _read_messages(
    connection: sqlite3.Connection, path: Sequence[tuple[int, tuple[int, ...]]]
) -> list[Message]:
    rows = connection.execute(
        "SELECT m.id, m.chat, m.parent, m.text, m.created, r.message, r.state, r.reasoning, r.ids,"
        " r.tokenizer, r.starts_in_reasoning, r.pauses, r.finish_reason, r.error, r.stats,"
        " r.format, r.model, r.edited"
        " FROM json_each(?) AS place JOIN messages AS m ON m.id = place.value"
        " LEFT JOIN replies AS r ON r.message = m.id ORDER BY place.key",
        (json.dumps([message for message, _ in path]),),
    ).fetchall()
    return [
        _message(connection, row, siblings) for row, (_, siblings) in zip(rows, path, strict=True)
    ]


def end_of_path(connection: sqlite3.Connection, chat: int) -> int | None:
    path = shown_path(tree_of(connection, chat))
    return path[-1][0] if path else None


def read_chat(
    connection: sqlite3.Connection, chat: int, chosen: int | None = None
) -> ChatPath | None:
    """The shown path, or the one with `chosen`; None for a deleted chat."""
    row = connection.execute(
        "SELECT key, created, system, left_out, format, settings, place, agreed, folder FROM chats"
        " WHERE id = ? AND deleted IS NULL",
        (chat,),
    ).fetchone()
    if row is None:
        return None
    key, created, system, left_out, reply_format, settings, place, agreed, folder = row
    allowed, where = fields.texts(agreed), fields.model(Place, place)
    if where is not None and where.address not in allowed:
        # Damage must not send a chat anywhere.
        where = None
    return ChatPath(
        tuple(read_path(connection, chat, chosen)),
        fields.text(key),
        fields.moment(created),
        fields.text(system),
        fields.whole(left_out),
        fields.model(ReplyFormat, reply_format),
        fields.tree(settings),
        where,
        allowed,
        folders.read(connection, folder),
    )


def shown_path(nodes: Iterable[Node]) -> list[tuple[int, tuple[int, ...]]]:
    """Ids, each with its siblings in order."""
    children: dict[int | None, list[Node]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node)
    path: list[tuple[int, tuple[int, ...]]] = []
    parent: int | None = None
    while alternatives := children.pop(parent, None):
        siblings = tuple(sorted(node.id for node in alternatives))
        parent = max(alternatives, key=lambda node: (node.chosen, node.id)).id
        path.append((parent, siblings))
    return path


def tree_of(connection: sqlite3.Connection, chat: int) -> list[Node]:
    """Without messages in the trash."""
    rows = connection.execute(
        "SELECT id, parent, chosen, deleted IS NOT NULL FROM messages WHERE chat = ?", (chat,)
    )
    known = {
        number: (fields.whole(parent), fields.whole(chosen) or 0, bool(gone))
        for number, parent, chosen, gone in rows
    }
    return [_node(number, known) for number, (_parent, _chosen, gone) in known.items() if not gone]


def parents_first(nodes: Iterable[Node]) -> list[Node]:
    """By id, but each after its parent: a message can be inserted later."""
    by_id = {node.id: node for node in sorted(nodes)}
    ordered: dict[int, Node] = {}
    for first in by_id:
        number = first
        above: dict[int, Node] = {}
        while number in by_id and number not in ordered and number not in above:
            above[number] = by_id[number]
            number = by_id[number].parent or 0
        # A damaged file may hold a circle.
        ordered |= dict(sorted(above.items()) if number in above else reversed(above.items()))
    return list(ordered.values())


def _node(number: int, known: Mapping[int, tuple[int | None, int, bool]]) -> Node:
    parent, *order = known[number][:2]
    passed = {number}
    # A damaged file may hold a circle.
    while parent is not None and parent in known and known[parent][2] and parent not in passed:
        passed.add(parent)
        parent, chosen, _ = known[parent]
        order.insert(0, chosen)
    return Node(number, parent, tuple(order))


def insert(connection: sqlite3.Connection, chat: int, parent: int | None, text: str) -> int:
    """Returns the id of the new chosen child, without a reply's row."""
    cursor = connection.execute(
        "INSERT INTO messages (chat, parent, text, created, chosen)"
        " VALUES (?, ?, ?, ?, (SELECT ifnull(max(chosen), 0) + 1 FROM messages))",
        (chat, parent, fields.storable(text), time.time()),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _message(
    connection: sqlite3.Connection, row: Sequence[Any], siblings: tuple[int, ...]
) -> Message:
    message, chat, parent, text, created, replied, *reply = row
    shown = attachments.Attached(fields.text(text))
    if replied is None:
        shown = attachments.attached(connection, "message", message, shown.text)
    return Message(
        id=message,
        chat=chat,
        parent=fields.whole(parent),
        text=shown.text,
        created=fields.moment(created),
        pictures=shown.pictures,
        documents=shown.documents,
        reply=replies.read(reply) if replied is not None else None,
        siblings=siblings,
    )
