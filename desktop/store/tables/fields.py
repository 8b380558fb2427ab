"""Reads values of any type, so that damage, which can change a type, costs one field."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from core.api.reply_format import ReplyFormat
from desktop.store.tables.records import Begin

Value = TypeVar("Value", bound=BaseModel)

DAMAGED = "This text was damaged and could not be read."
DAMAGED_PICTURE = "[A picture of this message was damaged and could not be read.]"
DAMAGED_DOCUMENT = "[A document of this message was damaged and could not be read.]"
DIGEST = re.compile("[0-9a-f]{64}")
ZEROS = re.compile("\0+")
# In the year 9999, the last of the calendar, in every time zone.
LAST_MOMENT = 253_370_764_800.0


def decode(data: bytes) -> str:
    """Invalid bytes, and zeros that a disk leaves in place of lost data, become U+FFFD."""
    text = data.decode("utf-8", "replace")
    return ZEROS.sub("\N{REPLACEMENT CHARACTER}", text) if "\0" in text else text


def storable(text: str) -> str:
    """Replace half surrogate pairs, which SQLite can't hold, and zeros, which mean damage."""
    return decode(text.encode("utf-8", "replace"))


def text(value: object) -> str:
    """`DAMAGED` if it isn't a text."""
    if isinstance(value, bytes):
        return decode(value)
    return value if isinstance(value, str) else DAMAGED


def whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def moment(value: object) -> float:
    """Seconds since the epoch, or 0."""
    if isinstance(value, int | float) and 0 <= value <= LAST_MOMENT:
        return float(value)
    return 0.0


def model(kind: type[Value], value: object) -> Value | None:
    """None if this version can't read it."""
    if not isinstance(value, str):
        return None
    try:
        return kind.model_validate_json(value)
    except ValidationError:
        return None


def stored_model(value: BaseModel | None) -> str | None:
    return value.model_dump_json() if value is not None else None


def tree(value: object) -> dict[str, Any]:
    """A JSON object, with tuples for its lists; else {}."""
    found = _json(value)
    if not isinstance(found, dict):
        return {}
    return {key: tuple(each) if isinstance(each, list) else each for key, each in found.items()}


def stored_tree(value: Mapping[str, object]) -> str | None:
    return json.dumps(value) if value else None


def begin(system: object, reply_format: object, settings: object) -> Begin:
    return Begin(text(system), model(ReplyFormat, reply_format), tree(settings))


def stored_begin(value: Begin) -> tuple[str, str | None, str | None]:
    return storable(value.system), stored_model(value.format), stored_tree(value.settings)


def numbers(value: object, least: int = 1) -> tuple[int, ...]:
    """Integers of at least `least`; else ()."""
    found = _json(value)
    fits = isinstance(found, list) and all(type(each) is int and each >= least for each in found)
    return tuple(found) if fits else ()


def texts(value: object) -> tuple[str, ...]:
    found = _json(value)
    fits = isinstance(found, list) and all(isinstance(each, str) for each in found)
    return tuple(found) if fits else ()


def _json(value: object) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None


def is_digest(value: object) -> bool:
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None
