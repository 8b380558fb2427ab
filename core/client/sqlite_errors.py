"""The errors that sqlite3 raises for a file, and those that mean damage: types and codes alone,
since messages may quote what people wrote."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

# Python raises UnicodeDecodeError if SQLite's message quotes a damaged name that it can't decode.
ERRORS = (sqlite3.Error, UnicodeDecodeError)
Error: TypeAlias = sqlite3.Error | UnicodeDecodeError

_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: Error) -> bool:
    # Python's module raises OperationalError without a code for a text that isn't UTF-8.
    undecodable = isinstance(error, sqlite3.OperationalError) and not code_of(error)
    return isinstance(error, UnicodeDecodeError) or undecodable or code_of(error) in _DAMAGED_CODES


def code_of(error: Error) -> int:
    # The higher bits extend the same code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
