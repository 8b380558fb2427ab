"""Reads finished replies in JSON within bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from core.api.reply_format import ReplyFormat
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.plain_text import shortened, visible

# Limits of what is shown: values of each list, values after which no list is begun, and depth.
MOST_BELOW = 1_000
MOST_ITEMS = 10_000
DEEPEST = 32
MOST_COLUMNS = 40
LONGEST_VALUE = 300


@dataclass(slots=True, eq=False)
class Item:
    """`text` is a string without quotes; `token` is the first character of its JSON, or '' for "… 5
    more"."""

    name: str
    token: str = ""
    value: str = ""
    text: str = ""
    above: Item | None = None
    place: int = 0
    below: list[Item] = field(default_factory=list)

    @property
    def is_list(self) -> bool:
        return self.token in ("{", "[")

    @property
    def is_number(self) -> bool:
        return self.token != "" and self.token in "-0123456789"

    def take(self, item: Item) -> None:
        item.above, item.place = self, len(self.below)
        self.below.append(item)

    def cell(self, name: str) -> Item | None:
        """The last field of that name."""
        return next((item for item in reversed(self.below) if item.name == name), None)


@dataclass(frozen=True, slots=True)
class Reading:
    """`fault` says why a reply breaks its format, `unchecked` why that is unknown. `root` is None
    if it isn't JSON; `columns` are those of a table."""

    fault: str
    root: Item | None = None
    columns: tuple[str, ...] = ()
    unchecked: str = ""


def read(reply_format: ReplyFormat, text: str, check: Callable[[], None] | None = None) -> Reading:
    """Takes up to a second; an exception of `check`, called meanwhile, ends it."""
    # Imported here: it costs 5 MB, which only structured replies need.
    from core.formats.check import NotCheckedError, fault

    found = unchecked = ""
    try:
        found = fault(reply_format, text, check)
    except NotCheckedError as error:
        unchecked = str(error)
    try:
        root = _items(parsed(text))
    except ValueError:
        return Reading(found, unchecked=unchecked)
    return Reading(found, root, _columns(root), unchecked)


class Number(str):
    """Python would turn 1e999 into infinity."""

    __slots__ = ()


class Fields(list[tuple[str, object]]):
    """In order, also several of one name."""


def parsed(text: str) -> object:
    """Raises ValueError, also if nested too deeply."""
    try:
        return json.loads(
            text,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_refuse,
            object_pairs_hook=Fields,
        )
    except RecursionError:
        raise ValueError from None


def _number(text: str) -> Number:
    # A Python function, so that the window's thread has its turn while a long text is parsed.
    return Number(text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _items(value: object) -> Item:
    room = MOST_ITEMS

    def item(name: str, value: object, depth: int) -> Item:
        nonlocal room
        room -= 1
        if not isinstance(value, list):
            return Item(name, *_value(value))
        is_object = isinstance(value, Fields)
        made = Item(name, "{" if is_object else "[", _size(len(value), is_object))
        for place, (key, inner) in enumerate(value if is_object else enumerate(value)):
            is_full = place == MOST_BELOW or (room <= 0 and isinstance(inner, list))
            if is_full or depth == DEEPEST:
                left = format_count(len(value) - place)
                made.take(Item(tr("… {count} more").format(count=left)))
                break
            name = visible(shortened(key, LONGEST_VALUE)) if is_object else str(key)
            made.take(item(name, inner, depth + 1))
        return made

    top = item("", value, 1)
    if top.below:
        return top
    root = Item("")
    root.take(top)
    return root


def _size(count: int, is_object: bool) -> str:
    if count == 1:
        return tr("1 field") if is_object else tr("1 item")
    text = tr("{count} fields") if is_object else tr("{count} items")
    return text.format(count=format_count(count))


def _value(value: object) -> tuple[str, str, str]:
    if isinstance(value, str) and not isinstance(value, Number):
        text = shortened(value, LONGEST_VALUE)
        one_line = text.replace("\n", "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}")
        return '"', visible(json.dumps(text, ensure_ascii=False)), visible(one_line)
    shown = shortened(value if isinstance(value, Number) else json.dumps(value), LONGEST_VALUE)
    return shown[0], shown, shown


def _columns(root: Item) -> tuple[str, ...]:
    """Empty unless it is a list of flat objects."""
    rows = [item for item in root.below if item.token]
    if root.token != "[" or not rows or not all(map(_is_row, rows)):
        return ()
    names = tuple(dict.fromkeys(cell.name for row in rows for cell in row.below))
    more = len(names) - MOST_COLUMNS
    if more <= 0:
        return names
    text = tr("… {count} more columns") if more > 1 else tr("… 1 more column")
    return *names[:MOST_COLUMNS], text.format(count=format_count(more))


def _is_row(item: Item) -> bool:
    plain = not any(cell.is_list or not cell.token for cell in item.below)
    return item.token == "{" and bool(item.below) and plain


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{},:]|[^\s\[\]{},:"]++')


def pretty(text: str) -> str:
    written: list[str] = []
    depth, before = 0, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        depth -= token in "]}"
        begins_line = before not in ("[", "{") if token in "]}" else before in ("[", "{", ",")
        # Deeper, the indentation would be longer than the content.
        if begins_line and depth <= DEEPEST:
            written.append("\n" + "  " * depth)
        written.append(": " if token == ":" else token)
        depth += token in "[{"
        before = token
    return "".join(written)
