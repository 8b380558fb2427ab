"""Pages, cells and records of a file, read without SQLite: a damaged page hides none but itself.

SQLite finds rows through the tree of pages above them, and gives up the whole tree where one of
those is damaged. Here each leaf speaks for itself. The format is SQLite's (fileformat2.html).
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from desktop.store.recovery.write_ahead import DEFAULT_PAGE_SIZE, PAGE_SIZES, Log, read_log
from desktop.store.tables import fields

MAGIC = b"SQLite format 3\0"
FILE_HEADER = 100
LEAF, INTERIOR = 13, 5
# Bytes at a page's end that SQLite leaves alone: none, or twelve where Apple built it.
RESERVED = (0, 12)
FIXED_SIZES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
FLOAT, ZERO, ONE = 7, 8, 9

Value: TypeAlias = int | float | str | bytes | None


class UnreadableError(ValueError):
    """These bytes are no cell or no record."""


class Cell(NamedTuple):
    """A row in a leaf: its id, the types of its columns as SQLite numbers them, and its place."""

    rowid: int
    types: tuple[int, ...]
    page: int
    start: int
    length: int


class Pages:
    """The pages of a file as its log leaves them, or before. A page that can't be read is empty."""

    def __init__(self, path: Path, with_log: bool = True) -> None:
        self.log = read_log(Path(f"{path}-wal")) if with_log else Log()
        with contextlib.ExitStack() as stack:
            self._file = _opened(path, stack)
            self._log_file = _opened(Path(f"{path}-wal"), stack)
            self._stack = stack.pop_all()
        self.header = _read(self._file, 0, FILE_HEADER)
        self.size = self._page_size()
        known = len(self.header) == FILE_HEADER and self.header[20] in RESERVED
        self._usable = self.size - (self.header[20] if known else 0)
        length = self._file.seek(0, 2) if self._file else 0
        self.count = max([-(-length // self.size), *self.log.pages])

    def close(self) -> None:
        self._stack.close()

    def numbers(self) -> list[int]:
        """All pages, those of the log first: where two hold the same row, theirs is newer."""
        in_log = sorted(self.log.pages)
        return in_log + [each for each in range(1, self.count + 1) if each not in self.log.pages]

    def page(self, number: int) -> bytes:
        """One page, with zeros for what a file that was cut short lacks of it; empty if lost."""
        if number in self.log.pages:
            data = _read(self._log_file, self.log.pages[number], self.size)
        else:
            data = _read(self._file, (number - 1) * self.size, self.size) if number > 0 else b""
        return data.ljust(self.size, b"\0") if data else b""

    def kind(self, number: int) -> int:
        """What the page says it is: LEAF, INTERIOR, or something that holds no rows."""
        page = self.page(number)
        return page[_start(number)] if page else 0

    def children(self, number: int) -> list[int]:
        """The pages below an interior page."""
        page, start = self.page(number), _start(number)
        places = _cell_places(page, start, 12)
        found = [int.from_bytes(page[place : place + 4]) for place in places]
        return [*found, int.from_bytes(page[start + 8 : start + 12])]

    def cells(self, number: int) -> Iterator[Cell | None]:
        """The rows of a leaf; None for each that can't be read."""
        page = self.page(number)
        for place in _cell_places(page, _start(number), 8):
            try:
                yield self._cell(page, number, place)
            except UnreadableError:
                yield None

    def values(self, cell: Cell) -> list[Value]:
        """The columns of a row. Of a text whose end is on a lost page the beginning is read."""
        payload = self._payload(cell)
        at, _ = _varint(payload, 0)
        values: list[Value] = []
        for kind in cell.types:
            size = _size(kind)
            values.append(_value(kind, payload[at : at + size], size))
            at += size
        return values

    def _cell(self, page: bytes, number: int, place: int) -> Cell:
        length, at = _varint(page, place)
        rowid, start = _varint(page, at)
        if not 0 < length <= self.count * self.size:
            raise UnreadableError
        end, at = _varint(page, start)
        if not 0 < end <= min(length, len(page) - start):
            raise UnreadableError
        types: list[int] = []
        while at < start + end:
            kind, at = _varint(page, at)
            _size(kind)
            types.append(kind)
        return Cell(rowid, tuple(types), number, start, length)

    def _payload(self, cell: Cell) -> bytes:
        """A record's bytes, from its cell and the pages chained to it, as far as they go."""
        page, usable = self.page(cell.page), self._usable
        if cell.length <= usable - 35:
            return page[cell.start : cell.start + cell.length]
        smallest = (usable - 12) * 32 // 255 - 23
        fitting = smallest + (cell.length - smallest) % (usable - 4)
        end = cell.start + (fitting if fitting <= usable - 35 else smallest)
        parts, missing = [page[cell.start : end]], cell.length - (end - cell.start)
        following = int.from_bytes(page[end : end + 4])
        while missing > 0 and (more := self.page(following)):
            parts.append(more[4:usable][:missing])
            missing -= usable - 4
            following = int.from_bytes(more[:4])
        return b"".join(parts)

    def _page_size(self) -> int:
        claimed = int.from_bytes(self.header[16:18])
        size = 65_536 if claimed == 1 else claimed
        if self.header.startswith(MAGIC) and size in PAGE_SIZES:
            return size
        return self.log.page_size or DEFAULT_PAGE_SIZE


def _opened(path: Path, stack: contextlib.ExitStack) -> BinaryIO | None:
    try:
        return stack.enter_context(path.open("rb"))
    except FileNotFoundError:
        return None


def _read(file: BinaryIO | None, offset: int, size: int) -> bytes:
    """Bytes of a file; none where the disk refuses them."""
    if file is None:
        return b""
    try:
        file.seek(offset)
        return file.read(size)
    except OSError:
        return b""


def _start(number: int) -> int:
    """Where a page's own header begins: the first page has the file's before it."""
    return FILE_HEADER if number == 1 else 0


def _cell_places(page: bytes, start: int, header: int) -> list[int]:
    """Where the cells of a page begin, as many as there is room for."""
    count = int.from_bytes(page[start + 3 : start + 5])
    pointers = page[start + header : start + header + 2 * count]
    places = [place for (place,) in struct.iter_unpack(">H", pointers[: len(pointers) & ~1])]
    return places


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where the next thing begins."""
    value = 0
    for place in range(at, at + 9):
        if place >= len(data):
            raise UnreadableError
        byte = data[place]
        if place == at + 8:
            value = value << 8 | byte
            return value - (value >> 63 << 64), place + 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    raise UnreadableError


def _size(kind: int) -> int:
    """The bytes of a value whose type is numbered `kind`."""
    if kind >= 12:
        return (kind - 12) // 2
    if kind not in FIXED_SIZES:
        raise UnreadableError
    return FIXED_SIZES[kind]


def _value(kind: int, data: bytes, size: int) -> Value:
    whole = len(data) == size
    if kind >= 13 and kind % 2:
        if whole:
            return fields.decode(data)
        return f"{fields.decode(data)}\n\n{fields.DAMAGED_REST}" if data else fields.DAMAGED
    if not whole or kind == 0:
        return None
    if kind >= 12:
        return data
    if kind == FLOAT:
        (number,) = struct.unpack(">d", data)
        return float(number)
    return kind - ZERO if kind in (ZERO, ONE) else int.from_bytes(data, signed=True)
