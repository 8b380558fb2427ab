"""The list of chats, the trash, and keys that the engine has yet to forget."""

from __future__ import annotations

import json
import re
import sqlite3
import time
import unicodedata
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from core.api.reply_format import ReplyFormat
from core.remote.messages import Place
from desktop.store.tables import fields
from desktop.store.tables.records import Begin, Chat

TITLE_LENGTH = 48
UNTITLED = "Picture chat"
# A line that is longer than this is no title.
LONGEST_TITLE = 2 * TITLE_LENGTH
# The word that some models begin with, and what they put around a title.
LABEL = re.compile(r"^\W*(?:title|titel)\W*:", re.IGNORECASE)
AROUND = "*_`#\"'\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb. "
TRASH_DAYS = 30
TRASH_S = TRASH_DAYS * 86_400.0


class ForgetRow(NamedTuple):
    """None for everything."""

    number: int
    key: str | None


def new_key() -> str:
    return uuid.uuid4().hex


def title_from(text: str) -> str:
    """The first words."""
    words = " ".join(text[: 4 * TITLE_LENGTH].split())
    if len(words) <= TITLE_LENGTH:
        return words or UNTITLED
    whole = words[: TITLE_LENGTH + 1].rsplit(" ", 1)[0]
    return f"{whole[:TITLE_LENGTH]}\N{HORIZONTAL ELLIPSIS}"


def title_of(reply: str) -> str:
    """A cleaned first line; '' if it is too long or empty."""
    for line in reply.strip()[: 2 * LONGEST_TITLE].splitlines():
        seen = "".join(each for each in line if unicodedata.category(each)[0] != "C")
        if title := LABEL.sub("", seen).strip(AROUND):
            return title_from(title) if len(title) <= LONGEST_TITLE else ""
    return ""


def create(
    connection: sqlite3.Connection,
    title: str,
    key: str = "",
    begin: Begin | None = None,
    folder: int | None = None,
    titled: bool = True,
) -> int:
    """Returns the id. A `folder` that is gone is none; `titled`: no model may write the title."""
    now = time.time()
    own = fields.stored_begin(begin or Begin())
    cursor = connection.execute(
        "INSERT INTO chats (title, created, used, key, system, format, settings, folder, titled)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT id FROM folders WHERE id = ?), ?)",
        (fields.storable(title), now, now, key or new_key(), *own, folder, titled),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def run_at(connection: sqlite3.Connection, chat: int, place: Place | None) -> None:
    """A server that the user agreed to writes the next replies; None is this computer."""
    connection.execute(
        "UPDATE chats SET place = ? WHERE id = ?", (fields.stored_model(place), chat)
    )
    if place is None:
        return
    (agreed,) = connection.execute("SELECT agreed FROM chats WHERE id = ?", (chat,)).fetchone()
    servers = dict.fromkeys((*fields.texts(agreed), place.address))
    connection.execute(
        "UPDATE chats SET agreed = ? WHERE id = ?", (json.dumps(list(servers)), chat)
    )


def listed(connection: sqlite3.Connection) -> list[Chat]:
    return _read(connection, "deleted IS NULL ORDER BY used DESC, id DESC")


def trashed(connection: sqlite3.Connection) -> list[Chat]:
    return _read(connection, "deleted IS NOT NULL ORDER BY deleted DESC, id DESC")


def rename(connection: sqlite3.Connection, chat: int, title: str) -> None:
    title = fields.storable(title)
    connection.execute("UPDATE chats SET title = ?, titled = 1 WHERE id = ?", (title, chat))


def awaits_title(connection: sqlite3.Connection, chat: int) -> bool:
    """True while its title is the first words of its first message."""
    found = connection.execute("SELECT titled = 0 FROM chats WHERE id = ?", (chat,)).fetchone()
    return bool(found and found[0])


def entitle(connection: sqlite3.Connection, chat: int, title: str) -> None:
    """A title of the user stays; '' keeps the first words."""
    connection.execute(
        "UPDATE chats SET title = ifnull(nullif(?, ''), title), titled = 1"
        " WHERE id = ? AND titled = 0",
        (title, chat),
    )


def pin(connection: sqlite3.Connection, chat: int, pinned: bool) -> None:
    connection.execute("UPDATE chats SET pinned = ? WHERE id = ?", (pinned, chat))


def touch(connection: sqlite3.Connection, chat: int) -> None:
    connection.execute("UPDATE chats SET used = ? WHERE id = ?", (time.time(), chat))


def instruct(connection: sqlite3.Connection, chat: int, system: str) -> None:
    system = fields.storable(system)
    connection.execute("UPDATE chats SET system = ? WHERE id = ?", (system, chat))


def ask_for(connection: sqlite3.Connection, chat: int, reply_format: ReplyFormat | None) -> None:
    """None for free text."""
    connection.execute(
        "UPDATE chats SET format = ? WHERE id = ?", (fields.stored_model(reply_format), chat)
    )


def set_own(connection: sqlite3.Connection, chat: int, settings: Mapping[str, object]) -> None:
    connection.execute(
        "UPDATE chats SET settings = ? WHERE id = ?", (fields.stored_tree(settings), chat)
    )


def leave_out(connection: sqlite3.Connection, chat: int, message: int | None) -> None:
    """Leave messages up to this one out of the prompt; None includes all."""
    connection.execute("UPDATE chats SET left_out = ? WHERE id = ?", (message, chat))


def delete(connection: sqlite3.Connection, chat: int) -> None:
    connection.execute("UPDATE chats SET deleted = ? WHERE id = ?", (time.time(), chat))


def restore(connection: sqlite3.Connection, chat: int) -> None:
    connection.execute("UPDATE chats SET deleted = NULL WHERE id = ?", (chat,))


def purge(
    connection: sqlite3.Connection, chat: int | None = None, before: float | None = None
) -> set[int]:
    """Delete chats of the trash, only `chat` or those deleted `before`, and queue their keys for
    the engine; returns their ids."""
    rows = connection.execute(
        "SELECT id FROM chats WHERE deleted IS NOT NULL AND id = ifnull(?1, id)"
        " AND (?2 IS NULL OR deleted < ?2)",
        (chat, before),
    )
    doomed = {number for (number,) in rows}
    for number in sorted(doomed):
        connection.execute(
            "INSERT INTO forgets (key) SELECT key FROM chats WHERE id = ?", (number,)
        )
        # Unlinked first: SQLite follows no more than a thousand nested cascades.
        connection.execute("UPDATE messages SET parent = NULL WHERE chat = ?", (number,))
        connection.execute("DELETE FROM chats WHERE id = ?", (number,))
    return doomed


def delete_everything(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE messages SET parent = NULL")
    for table in ("drafts", "chats", "folders", "pictures", "documents", "forgets"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT INTO forgets (key) VALUES (NULL)")


def forget_later(connection: sqlite3.Connection, key: str) -> None:
    connection.execute("INSERT INTO forgets (key) VALUES (?)", (key,))


def next_to_forget(connection: sqlite3.Connection) -> ForgetRow | None:
    row = connection.execute("SELECT number, key FROM forgets ORDER BY number LIMIT 1").fetchone()
    if row is None:
        return None
    number, key = row
    # With a damaged key the engine forgets everything, which only costs reading it again.
    return ForgetRow(number, key if isinstance(key, str) else None)


def confirm_forgotten(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("DELETE FROM forgets WHERE number = ?", (number,))


def _read(connection: sqlite3.Connection, which: str) -> list[Chat]:
    rows = connection.execute(
        f"SELECT id, title, created, used, pinned, deleted, forked, folder FROM chats WHERE {which}"
    )
    times = fields.moment
    return [
        Chat(
            id_,
            fields.text(title),
            times(made),
            times(used),
            bool(pin),
            times(gone),
            bool(fork),
            fields.whole(folder),
        )
        for id_, title, made, used, pin, gone, fork, folder in rows
    ]
