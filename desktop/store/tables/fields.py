"""Values as they are read from the file: whatever damage left in a column, that field alone is hit.

SQLite stores any type in any column, and a damaged byte can make a number of a text.
"""

from __future__ import annotations

import json
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

Value = TypeVar("Value", bound=BaseModel)

DAMAGED = "This text was damaged and could not be read."
DAMAGED_PICTURE = "[A picture of this message was damaged and could not be read.]"
DIGEST = re.compile("[0-9a-f]{64}")
ZEROS = re.compile("\0+")
# The end of the year 9999, beyond which no calendar goes.
LAST_MOMENT = 253_402_300_799.0


def decode(data: bytes) -> str:
    """Text from its bytes; what is no UTF-8 costs the characters it hit.

    Zeros, which nobody writes and a disk leaves where it lost something, become one such mark.
    """
    text = data.decode("utf-8", "replace")
    return ZEROS.sub("\N{REPLACEMENT CHARACTER}", text) if "\0" in text else text


def text(value: object) -> str:
    """A text, or the words that stand for one."""
    if isinstance(value, bytes):
        return decode(value)
    return value if isinstance(value, str) else DAMAGED


def whole(value: object) -> int | None:
    """A whole number, or None."""
    return value if isinstance(value, int) else None


def moment(value: object) -> float:
    """Seconds since the epoch, or 0."""
    plausible = isinstance(value, (int, float)) and 0 <= value <= LAST_MOMENT
    return float(value) if plausible and isinstance(value, (int, float)) else 0.0


def model(kind: type[Value], value: object) -> Value | None:
    """A value stored as JSON, or None where it is missing or can't be read by this version."""
    if not isinstance(value, str):
        return None
    try:
        return kind.model_validate_json(value)
    except ValidationError:
        return None


def stored_model(value: BaseModel | None) -> str | None:
    """What `model` reads."""
    return value.model_dump_json() if value is not None else None


def numbers(value: object) -> tuple[int, ...]:
    """Positive numbers stored as a JSON list; () where it is missing or none."""
    try:
        found = json.loads(value) if isinstance(value, str) else ()
    except ValueError:
        return ()
    whole_ones = isinstance(found, list) and all(type(each) is int and each > 0 for each in found)
    return tuple(found) if whole_ones else ()


def is_digest(value: object) -> bool:
    """Whether this is a SHA-256 in hex."""
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None
