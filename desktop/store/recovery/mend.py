"""Makes one whole of the rows that were saved: every message can be reached from its chat.

In every chat a user's message stands at the root, replies below it, a user's messages below those,
and so on; and what is below has the higher id. Where rows are lost, that says what they were.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import NamedTuple

from desktop.store.tables import fields
from desktop.store.tables.chats import new_key, title_from
from desktop.store.tables.records import ReplyState

# The id of something that was there and can't be known any more.
UNKNOWN = 0


class Mended(NamedTuple):
    """Messages that were lost and are marked now, chats whose names were, and other lost rows."""

    lost_messages: int
    nameless: int
    lost_rows: int


def mend(connection: sqlite3.Connection) -> Mended:
    """Repair the tree of messages and whatever names a row that is not there."""
    tree = _Tree(connection)
    tree.put_in_lost()
    tree.join()
    tree.write(connection)
    nameless = _name_chats(connection)
    return Mended(len(tree.lost), nameless, _drop_loose_ends(connection))


@dataclass(slots=True)
class _Node:
    """A message. `lost` says that only others' mention of it is left."""

    chat: int
    parent: int | None
    chosen: int
    is_reply: bool
    below: list[int] = field(default_factory=list)


class _Tree:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._replies = _ids(connection, "SELECT message FROM replies")
        pictured = _ids(connection, "SELECT message FROM message_pictures")
        self._nodes: dict[int, _Node] = {
            number: _Node(chat, parent, chosen, number in self._replies)
            for number, chat, parent, chosen in connection.execute(
                "SELECT id, chat, parent, chosen FROM messages"
            )
        }
        self._ids = sorted(self._nodes)
        self._below_lost: dict[int, list[int]] = {}
        for number, node in self._nodes.items():
            if node.parent in self._nodes:
                self._nodes[node.parent].below.append(number)
            elif node.parent is not None and UNKNOWN < node.parent < number:
                self._below_lost.setdefault(node.parent, []).append(number)
        mentioned = self._replies | pictured | set(self._below_lost)
        self._missing = sorted(mentioned - set(self._nodes) - {UNKNOWN})
        self.lost: list[int] = []

    def put_in_lost(self) -> None:
        """A place for each message that others mention."""
        for number in self._missing:
            self._put_in(number)
        for number in reversed(self.lost):
            node = self._nodes[number]
            node.chosen = max((self._nodes[each].chosen for each in node.below), default=0)

    def join(self) -> None:
        """Hang each message below one that it can follow."""
        for number in self._ids:
            node = self._nodes[number]
            parent = self._nodes.get(node.parent) if node.parent is not None else None
            if parent is None or (node.parent or 0) >= number:
                if node.parent is not None or node.is_reply:
                    node.parent = self._likely_parent(number, node)
                continue
            misplaced = parent.chat != node.chat and not self._agree(number, node, parent)
            if misplaced or (parent.is_reply and node.is_reply):
                node.parent = self._likely_parent(number, node)
            else:
                # A message below a user's is a reply, also where that row was lost.
                node.is_reply = not parent.is_reply

    def write(self, connection: sqlite3.Connection) -> None:
        """Store what is new or other than it was."""
        connection.executemany(
            "INSERT INTO messages (id, chat, text, created, chosen) VALUES (?, ?, ?, ifnull("
            "(SELECT created FROM messages WHERE id < ?1 ORDER BY id DESC LIMIT 1), 0), ?4)",
            [(each, UNKNOWN, fields.DAMAGED, 0) for each in self.lost],
        )
        connection.executemany(
            "UPDATE messages SET chat = ?, parent = ?, chosen = ? WHERE id = ?",
            [(node.chat, node.parent, node.chosen, each) for each, node in self._nodes.items()],
        )
        connection.executemany(
            "INSERT OR IGNORE INTO replies (message, state) VALUES (?, ?)",
            [(each, ReplyState.STOPPED) for each, node in self._nodes.items() if node.is_reply],
        )

    def _put_in(self, number: int) -> None:
        if number in self._nodes:
            return
        below = self._below_lost.get(number, [])
        is_reply = number in self._replies or (
            bool(below) and not any(self._nodes[each].is_reply for each in below)
        )
        if is_reply and number - 1 > UNKNOWN:
            # A turn is stored whole: its question has the id before.
            self._put_in(number - 1)
        chat = self._nodes[below[0]].chat if below else self._chat_near(number)
        node = self._nodes[number] = _Node(chat, None, 0, is_reply, list(below))
        insort(self._ids, number)
        insort(self.lost, number)
        node.parent = self._likely_parent(number, node)
        if node.parent is not None:
            self._nodes[node.parent].below.append(number)

    def _likely_parent(self, number: int, node: _Node) -> int | None:
        """The last message before this one that it can follow."""
        for place in range(bisect_left(self._ids, number) - 1, -1, -1):
            other = self._nodes[self._ids[place]]
            if other.chat == node.chat and other.is_reply != node.is_reply:
                return self._ids[place]
        return None

    def _chat_near(self, number: int) -> int:
        place = bisect_left(self._ids, number)
        near = self._ids[max(0, place - 1) : place + 1]
        return self._nodes[near[0]].chat if near else UNKNOWN

    def _agree(self, number: int, node: _Node, parent: _Node) -> bool:
        """Of two chats, take the one that others bear out; False if both are."""
        borne_out = any(self._nodes[each].chat == node.chat for each in node.below)
        siblings = [self._nodes[each].chat for each in parent.below if each != number]
        above = self._nodes.get(parent.parent) if parent.parent is not None else None
        parent_borne_out = parent.chat in siblings or (above and above.chat == parent.chat)
        if borne_out and parent_borne_out:
            return False
        if borne_out:
            parent.chat = node.chat
        else:
            node.chat = parent.chat
        return True


def _name_chats(connection: sqlite3.Connection) -> int:
    """A chat for all messages and drafts that have lost theirs; returns how many were made."""
    missing = _ids(
        connection,
        "SELECT chat FROM messages UNION SELECT chat FROM drafts WHERE chat IS NOT NULL"
        " EXCEPT SELECT id FROM chats",
    )
    for chat in sorted(missing, reverse=True):
        first, created, used = connection.execute(
            "SELECT (SELECT text FROM messages WHERE chat = ?1 AND text != ?2 ORDER BY id LIMIT 1),"
            " min(created), max(created) FROM messages WHERE chat = ?1",
            (chat, fields.DAMAGED),
        ).fetchone()
        title = f"Recovered: {title_from(first)}" if first else "Recovered"
        cursor = connection.execute(
            "INSERT INTO chats (id, title, created, used, key) VALUES (?, ?, ?, ?, ?)",
            (chat or None, title, created or 0, used or 0, new_key()),
        )
        for table in ("messages", "drafts"):
            if chat == UNKNOWN:
                connection.execute(
                    f"UPDATE {table} SET chat = ? WHERE chat = ?", (cursor.lastrowid, UNKNOWN)
                )
    return len(missing)


def _drop_loose_ends(connection: sqlite3.Connection) -> int:
    """Drop rows whose owner is lost, and make up for pictures that are only mentioned; returns how
    many rows were lost or dropped."""
    lost = connection.execute(
        "DELETE FROM reply_parts WHERE message NOT IN (SELECT message FROM replies)"
    ).rowcount
    for table, owner, owners in (
        ("message_pictures", "message", "SELECT id FROM messages"),
        ("draft_pictures", "draft", "SELECT number FROM drafts"),
    ):
        lost += connection.execute(f"DELETE FROM {table} WHERE {owner} NOT IN ({owners})").rowcount
        # The file itself lies in a folder by its digest; only the thumbnail is lost.
        lost += connection.execute(
            "INSERT OR IGNORE INTO pictures SELECT digest, ifnull(resized_width, 0),"
            f" ifnull(resized_height, 0), x'' FROM {table}"
            " WHERE digest NOT IN (SELECT digest FROM pictures)"
        ).rowcount
    return lost


def _ids(connection: sqlite3.Connection, query: str) -> set[int]:
    return {number for (number,) in connection.execute(query)}
