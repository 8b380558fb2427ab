"""The errors that Python's sqlite3 raises for a file, and those that mean damage.

SQLite's own messages may quote what people wrote, so only types and codes are read here. The chats'
file and the index of the contexts share this.
"""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

# All that Python raises for an error of SQLite's. It can't decode a message that quotes a damaged
# name of a table, and raises UnicodeDecodeError instead.
ERRORS = (sqlite3.Error, UnicodeDecodeError)
Error: TypeAlias = sqlite3.Error | UnicodeDecodeError

_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: Error) -> bool:
    """True if the file is damaged, or no database at all."""
    # Python's own module raises OperationalError without a code for a text that is no UTF-8.
    undecodable = isinstance(error, sqlite3.OperationalError) and not code_of(error)
    return isinstance(error, UnicodeDecodeError) or undecodable or code_of(error) in _DAMAGED_CODES


def code_of(error: Error) -> int:
    """SQLite's primary result code; 0 for errors of Python's own module."""
    # The higher bits say more about the same code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
