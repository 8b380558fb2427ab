"""The log beside a file (its -wal): which pages it holds, and whether it is damaged.

SQLite reads it up to the first frame whose checksum is wrong, since that is what a power cut leaves
of a transaction. It says nothing when whole transactions follow, which only damage can bring about:
each begins when the one before is on disk. The format is SQLite's (fileformat2.html, section 4).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HEADER = struct.Struct(">8I")
FRAME = struct.Struct(">6I")
# Whether checksums add up words of the one or the other byte order.
ORDERS = {0x377F0682: "<", 0x377F0683: ">"}
PAGE_SIZES = tuple(2**power for power in range(9, 17))
DEFAULT_PAGE_SIZE = 4096
# One transaction behind a bad frame may be the rest of the one that the power cut off.
TELLING = 2


@dataclass(frozen=True, slots=True)
class Log:
    """Where in the log each page's newest stored version begins; `damaged` is never a power cut."""

    page_size: int = 0
    pages: dict[int, int] = field(default_factory=dict)
    damaged: bool = False


class Frame(NamedTuple):
    """One page in the log; `good` if its checksum follows from the frame before."""

    number: int
    offset: int
    commits: bool
    good: bool


def read_log(path: Path) -> Log:
    """What the log at `path` holds, with what lies behind a damaged frame; empty if there is none.

    Raises OSError when it can't be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Log()
    if len(data) < HEADER.size + FRAME.size:
        return Log()
    page_size, header_good = _header(data)
    stored: dict[int, int] = {}
    as_sqlite_reads: dict[int, int] | None = None if header_good else {}
    since_commit: dict[int, int] = {}
    transactions_behind = 0
    for frame in _frames(data, page_size, header_good):
        if not frame.good:
            as_sqlite_reads = dict(stored) if as_sqlite_reads is None else as_sqlite_reads
            continue
        since_commit[frame.number] = frame.offset
        if frame.commits:
            stored.update(since_commit)
            since_commit.clear()
            transactions_behind += as_sqlite_reads is not None
    damaged = transactions_behind >= TELLING
    pages = stored if damaged or as_sqlite_reads is None else as_sqlite_reads
    return Log(page_size, pages, damaged)


def _header(data: bytes) -> tuple[int, bool]:
    """The size of a page, and whether the header is what SQLite wrote."""
    magic, _, page_size, *_, first, second = HEADER.unpack_from(data)
    order = ORDERS.get(magic)
    size = page_size if page_size in PAGE_SIZES else DEFAULT_PAGE_SIZE
    good = order is not None and _checksum(data[:24], order, 0, 0) == (first, second)
    return size, good


def _frames(data: bytes, page_size: int, header_good: bool) -> Iterator[Frame]:
    magic, *_, salt_1, salt_2, first, second = HEADER.unpack_from(data)
    order = ORDERS.get(magic, "<")
    # Frames of an earlier round have other salts. Without a header, the first frame's count.
    salts = (salt_1, salt_2) if header_good else FRAME.unpack_from(data, HEADER.size)[2:4]
    for start in range(HEADER.size, len(data) - FRAME.size - page_size + 1, FRAME.size + page_size):
        number, size_after, salt_1, salt_2, *sums = FRAME.unpack_from(data, start)
        offset = start + FRAME.size
        good = (salt_1, salt_2) == salts and number > 0
        if good:
            summed = data[start : start + 8] + data[offset : offset + page_size]
            good = _checksum(summed, order, first, second) == tuple(sums)
        first, second = sums
        yield Frame(number, offset, size_after > 0, good)


def _checksum(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
