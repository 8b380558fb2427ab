"""Keys of deleted chats that the engine has not yet forgotten, in the order of their deletion.

A key enters in the transaction that deletes its chat (`chats.purge`), and leaves when the engine
has confirmed. Functions of a connection, each run as one transaction by `Database.run`.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple


class ForgetRow(NamedTuple):
    """Something to forget; without a key, everything."""

    number: int
    key: str | None


def first(connection: sqlite3.Connection) -> ForgetRow | None:
    """What is to be forgotten next."""
    row = connection.execute("SELECT number, key FROM forgets ORDER BY number LIMIT 1").fetchone()
    if row is None:
        return None
    number, key = row
    # Of a damaged key nothing is known but that something is to go: then everything does, which
    # costs no more than reading it again.
    return ForgetRow(number, key if isinstance(key, str) else None)


def confirm(connection: sqlite3.Connection, number: int) -> None:
    """The engine has forgotten it."""
    connection.execute("DELETE FROM forgets WHERE number = ?", (number,))
