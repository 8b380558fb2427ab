"""A finished reply read as data: whether it has its form, and what of it is shown.

Takes its time, a second for the longest replies, so never in the window's thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from core.api.reply_format import ReplyFormat
from desktop.chat.data.events import Event, NotJsonError, events
from desktop.widgets.plain_text import shortened, visible
from desktop.words.formats import more_columns_words, more_items_words, size_words

# What is shown of a long reply: of each list so many values, no further list once there are so many
# values in all, and so deep.
MOST_BELOW = 1_000
MOST_ITEMS = 10_000
DEEPEST = 32
MOST_COLUMNS = 40
LONGEST_VALUE = 300


@dataclass(slots=True, eq=False)
class Item:
    """A value with its name, both as they are shown; `text` is a string without its quotes.

    `token` is how it begins, "{" or "[" of a list of values, "" of words that stand for values not
    shown. `count` is how many values are in it, of which `below` are shown.
    """

    name: str
    token: str = ""
    value: str = ""
    text: str = ""
    above: Item | None = None
    place: int = 0
    below: list[Item] = field(default_factory=list)
    count: int = 0

    @property
    def is_list(self) -> bool:
        return self.token in ("{", "[")

    @property
    def is_number(self) -> bool:
        return self.token != "" and self.token in "-0123456789"

    def take(self, item: Item) -> None:
        item.above, item.place = self, len(self.below)
        self.below.append(item)


@dataclass(frozen=True, slots=True)
class Reading:
    """`fault` says why a reply is not of its form, '' if it is; `unchecked` why that is not known.

    Of what is no JSON there is no `root`. What is a table has `columns`, and cells for each of the
    rows below the root.
    """

    fault: str
    root: Item | None = None
    columns: tuple[str, ...] = ()
    cells: tuple[tuple[Item | None, ...], ...] = ()
    unchecked: str = ""


def read(reply_format: ReplyFormat, text: str, check: Callable[[], None] | None = None) -> Reading:
    """Check a finished reply, and take apart as much of it as is shown.

    `check` is called while a helper process checks it; what it raises ends that.
    """
    # A library and 5 MB, for those who ask for such replies.
    from core.formats.check import NotCheckedError, fault

    found = unchecked = ""
    try:
        found = fault(reply_format, text, check)
    except NotCheckedError as error:
        unchecked = str(error)
    try:
        root = _items(text)
    except NotJsonError:
        return Reading(found, unchecked=unchecked)
    columns = _columns(root)
    rows = [{cell.name: cell for cell in row.below} for row in root.below] if columns else []
    cells = tuple(tuple(row.get(name) for name in columns) for row in rows)
    return Reading(found, root, columns, cells, unchecked)


def _items(text: str) -> Item:
    """All of a text below an item that is not shown itself."""
    root = Item("")
    # Those of lists that are not shown are None.
    opened: list[Item | None] = [root]
    name, items = "", 0
    for event, token in events(text):
        above = opened[-1]
        match event:
            case Event.NAME:
                name = token
            case Event.CLOSE:
                opened.pop()
                if above is not None:
                    _end(above)
            case _:
                is_list = event is Event.OPEN
                item = None
                if above is not None:
                    above.count += 1
                    if _has_room(above, len(opened), is_list and items >= MOST_ITEMS):
                        item = Item(_name(above, name), *_value(token))
                        above.take(item)
                        items += 1
                if is_list:
                    opened.append(item)
    top = root.below[0]
    if not top.below:
        return root
    top.above = None
    return top


def _has_room(above: Item, depth: int, is_full: bool) -> bool:
    # What follows a value that is not shown is not shown either.
    whole = above.count == len(above.below) + 1
    return whole and len(above.below) < MOST_BELOW and depth <= DEEPEST and not is_full


def _end(item: Item) -> None:
    """All that is in a list is known: say what is not shown."""
    item.value = size_words(item.count, item.token == "{")
    if item.count > len(item.below):
        item.take(Item(more_items_words(item.count - len(item.below))))


def _name(above: Item, name: str) -> str:
    if above.token == "{":
        return visible(shortened(str(json.loads(name)), LONGEST_VALUE))
    return str(above.count - 1) if above.token == "[" else ""


def _value(token: str) -> tuple[str, str, str]:
    """How a value begins, how a tree shows it, and how a table does."""
    if token[0] != '"':
        shown = shortened(token, LONGEST_VALUE)
        return token[0], shown, shown
    text = shortened(str(json.loads(token)), LONGEST_VALUE)
    quoted = json.dumps(text, ensure_ascii=False)
    return (
        '"',
        visible(quoted),
        visible(text.replace("\n", "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}")),
    )


def _columns(root: Item) -> tuple[str, ...]:
    """The names in a list of flat objects, '' for anything else."""
    rows = [item for item in root.below if item.token]
    if root.token != "[" or not rows or not all(map(_is_row, rows)):
        return ()
    names = tuple(dict.fromkeys(cell.name for row in rows for cell in row.below))
    more = len(names) - MOST_COLUMNS
    return names if more <= 0 else (*names[:MOST_COLUMNS], more_columns_words(more))


def _is_row(item: Item) -> bool:
    """Whether this is an object of plain values, all of them shown."""
    plain = not any(cell.is_list or not cell.token for cell in item.below)
    return item.token == "{" and bool(item.below) and plain


def walk(root: Item) -> Iterator[Item]:
    """All items below one, those of a level before those of the next."""
    level = root.below
    while level:
        yield from level
        level = [below for item in level for below in item.below]
