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
    return ForgetRow(*row) if row else None


def confirm(connection: sqlite3.Connection, number: int) -> None:
    """The engine has forgotten it."""
    connection.execute("DELETE FROM forgets WHERE number = ?", (number,))
