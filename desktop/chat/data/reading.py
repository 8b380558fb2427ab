"""Reads finished structured replies and checks schemas, outside the window's thread."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from core.api.reply_format import LONGEST_TEXT, ReplyFormat
from desktop.chat.data.json_text import Event, NotJsonError, events, pretty
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.numbers import count_of, format_count
from desktop.store.tables.messages import storable
from desktop.widgets.plain_text import shortened, visible

# Limits of what is shown: values of each list, values after which no list is begun, and depth.
MOST_BELOW = 1_000
MOST_ITEMS = 10_000
DEEPEST = 32
MOST_COLUMNS = 40
LONGEST_VALUE = 300


@dataclass(slots=True, eq=False)
class Item:
    """A JSON value as it is shown; `text` is a string without its quotes.

    `token`: the first character of its JSON, or '' for a line such as "… 5 more". `count`: all
    values in it, shown or not.
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
    """`fault`: why a reply breaks its format, or ''. `unchecked`: why that is not known, or ''.

    `root` is None if it isn't JSON. A table has `columns`, and `cells` for each row below the root.
    """

    fault: str
    root: Item | None = None
    columns: tuple[str, ...] = ()
    cells: tuple[tuple[Item | None, ...], ...] = ()
    unchecked: str = ""


def read(reply_format: ReplyFormat, text: str, check: Callable[[], None] | None = None) -> Reading:
    """Check a finished reply and read what is shown of it; takes up to a second.

    `check` is called meanwhile; an exception from it ends the work.
    """
    # Imported here: it costs 5 MB, which only structured replies need.
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
    """The items of a text, below a root that is not shown itself."""
    root = Item("")
    # None for lists that are not shown.
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
    # After a value that is not shown, none is.
    whole = above.count == len(above.below) + 1
    return whole and len(above.below) < MOST_BELOW and depth <= DEEPEST and not is_full


def _end(item: Item) -> None:
    """Describe a list that is complete, and what of it is not shown."""
    item.value = count_of(item.count, "field" if item.token == "{" else "item")
    if item.count > len(item.below):
        more = tr("… {count} more")
        item.take(Item(more.format(count=format_count(item.count - len(item.below)))))


def _name(above: Item, name: str) -> str:
    if above.token == "{":
        return visible(shortened(str(json.loads(name)), LONGEST_VALUE))
    return str(above.count - 1) if above.token == "[" else ""


def _value(token: str) -> tuple[str, str, str]:
    """Token, value and text of an `Item`."""
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
    """The names in a list of flat objects; none for anything else."""
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
    """True if this is an object of plain values, all shown."""
    plain = not any(cell.is_list or not cell.token for cell in item.below)
    return item.token == "{" and bool(item.below) and plain


T = TypeVar("T")
Check = Callable[[], None]
# A reply that comes back into view is read again, unless it is one of the last few.
MOST_KEPT = 8


def schema_format(text: str) -> ReplyFormat | None:
    schema = storable(text)
    return ReplyFormat(kind="json_schema", text=schema) if len(schema) <= LONGEST_TEXT else None


class Formats(QObject):
    """Checks schemas and reads replies, one at a time.

    `checked(schema, refusal)`: why a schema can't be used, or ''.
    """

    # Texts are sent as objects: as Qt strings they would be copied, and lone surrogates lost.
    checked = Signal(object, str)
    was_read = Signal(int, object, object)
    indented = Signal(int, object)

    def __init__(self, tasks: Tasks) -> None:
        super().__init__()
        self._tasks = tasks
        # One after another: the threads are shared with other slow work.
        self._turn = asyncio.Lock()
        self._wanted = ""
        self._kept: dict[tuple[int, str], Reading] = {}

    def check(self, schema: str) -> None:
        """Emit `checked` for the schema asked for last."""
        self._wanted = schema
        self._tasks.spawn(self._check(schema), "Checking a schema")

    def read(self, message: int, text: str, reply_format: ReplyFormat) -> None:
        self._tasks.spawn(self._read(message, text, reply_format), "Reading a reply")

    def indent(self, message: int, text: str) -> None:
        self._tasks.spawn(self._indent(message, text), "Copying a reply")

    async def _check(self, schema: str) -> None:
        async with self._turn:
            if schema != self._wanted:
                return
            form = schema_format(schema)
            if form is None:
                text = tr("The schema is longer than {count} characters.")
                said = text.format(count=format_count(LONGEST_TEXT))
            else:
                said = await _in_thread(lambda check: refusal(form, check))
        if schema == self._wanted:
            self.checked.emit(schema, said)

    async def _read(self, message: int, text: str, reply_format: ReplyFormat) -> None:
        async with self._turn:
            found = self._kept.pop((message, text), None)
            if found is None:
                found = await _in_thread(lambda check: read(reply_format, text, check))
        self._kept[message, text] = found
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self.was_read.emit(message, text, found)

    async def _indent(self, message: int, text: str) -> None:
        self.indented.emit(message, await _in_thread(lambda _: pretty(text)))


def refusal(reply_format: ReplyFormat, check: Check) -> str:
    from core.formats.check import refusal as found

    return found(reply_format, check)


class _GivenUpError(Exception):
    pass


async def _in_thread(work: Callable[[Check], T]) -> T:
    """Run a function in a thread; when the task is cancelled, its `check` raises.

    At closing the loop can't end before the thread has.
    """
    given_up = threading.Event()

    def check() -> None:
        if given_up.is_set():
            raise _GivenUpError

    try:
        return await asyncio.get_running_loop().run_in_executor(None, work, check)
    finally:
        given_up.set()
