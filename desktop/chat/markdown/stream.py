"""Splits growing Markdown into blocks; only the last block is parsed again.

A block is closed once a later one has begun on a complete line. Limits keep the cost of hostile
text proportional to its length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from desktop.chat.markdown.blocks import TABLE, Block, Fence, Found, find_blocks

# A longer paragraph or list is split. A line may be an item, which costs as much as fifty letters;
# with many marks before its text it may be several nested items, and counts as several lines.
LONGEST_BLOCK = 16_000
MOST_LINES = 300
MARKS_OF_A_LINE = 8
_LINE_MARKS = " >*+-.)0123456789"
# An open block larger than this is parsed again only after it has grown by this share: text still
# appears at reading pace, and the whole costs a fixed number of parses.
LARGE_BLOCK = 8_000
GROWTH = 1 / 50
# Code comes in pieces of this size, so that only the last one is looked at again.
LONGEST_CODE = 8_000
# Characters that Qt's text documents reserve, and lone surrogates.
_UNSHOWABLE = re.compile("[\x00\ufdd0-\ufdef\ufffc\u2029\ud800-\udfff]")
# Combining marks take no room: without a limit all of a text would be drawn on one screen.
MOST_STACKED = 16
_STACKS = ((0x300, 0x2000), (0x20D0, 0x2100), (0xA000, 0xAC00), (0xFE00, 0xFE30))
_STACKED = "".join(
    re.escape(chr(code))
    for first, end in _STACKS
    for code in range(first, end)
    if unicodedata.category(chr(code)) in ("Mn", "Me")
)
_TOO_MANY_STACKED = re.compile(f"([{_STACKED}]{{{MOST_STACKED}}})[{_STACKED}]+")
_EMPTY_LINE = re.compile(r"^[ \t]*\n", re.MULTILINE)
# A last line that may become the end of the code. It is not shown, so that shown code only grows.
_FENCE_MARKS = re.compile(r" {0,3}(?:`*|~*)[ \t]*")


class BlockStream:
    """`closed` blocks never change, `open` ones may."""

    def __init__(self) -> None:
        self.closed: list[Block] = []
        self.open: list[Block] = []
        self._tail = ""  # the source of the open blocks; of code without its opening line
        self._held = ""  # a carriage return whose line feed may still come
        self._fence: Fence | None = None  # the tail is code that has not ended
        self._continues = False  # and a piece of it is closed already
        self._scanned = 0  # how much of that code was searched for its end

    def append(self, text: str, more: bool = False) -> None:
        """Parses the text and the open block; if `more` comes, `open` isn't updated."""
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        text = _UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text)
        if not text.isascii():
            before = self._tail[-MOST_STACKED:]
            text = _TOO_MANY_STACKED.sub(r"\1", before + text)[len(before) :]
        while text:
            # Never parse more than a block may hold.
            room = self._room(text)
            piece, text = text[:room], text[room:]
            self._tail += piece
            # Only a complete line can end a block.
            if "\n" in piece or self._is_full():
                self._close_what_is_complete()
        if not more:
            self.open = self._open_blocks()

    def finish(self) -> None:
        self.append("\n" if self._held else "", more=True)
        self._held = ""
        self.closed += self._open_blocks(ended=True)
        self.open, self._tail, self._scanned = [], "", 0
        self._fence, self._continues = None, False

    def patience(self) -> int:
        """Characters to wait for before parsing the open blocks again."""
        is_large = self._fence is None and len(self._tail) > LARGE_BLOCK
        return int(len(self._tail) * GROWTH) if is_large else 0

    def _limit(self) -> int:
        return LONGEST_CODE if self._fence else LONGEST_BLOCK

    def _room(self, text: str) -> int:
        room = self._limit() - len(self._tail)
        if self._fence is not None:
            return room
        end = _after_most_lines(self._tail + text[:room])
        return room if end is None else end - len(self._tail)

    def _is_full(self) -> bool:
        if len(self._tail) >= self._limit():
            return True
        return self._fence is None and _after_most_lines(self._tail) is not None

    def _close_what_is_complete(self) -> None:
        moved = True
        while moved:
            moved = self._close_listing() if self._fence else self._close_prose()
        while self._is_full():
            self._close_piece()

    def _close_prose(self) -> bool:
        """Returns whether code begins."""
        found = find_blocks(self._tail[: self._tail.rfind("\n") + 1])
        # A table that is too large is code up to the next empty line.
        large = next((at for at, each in enumerate(found) if each.is_large_table), None)
        found = found if large is None else found[: large + 1]
        if not found:
            return False
        last = found[-1]
        self._tail = self._tail[last.start :]
        self.closed += _all_closed(found[:-1])
        return self._begin_listing(last)

    def _begin_listing(self, found: Found) -> bool:
        self._fence = found.fence
        if found.is_large_table:
            self._fence = Fence(0, _EMPTY_LINE, TABLE)
        elif self._fence is not None:
            self._tail = self._tail[self._tail.find("\n") + 1 :]
        self._continues, self._scanned = False, 0
        return self._fence is not None

    def _close_listing(self) -> bool:
        """Looks only at lines completed since the last call."""
        assert self._fence is not None
        # A continued piece begins with the rest of a line.
        first = self._tail.find("\n") + 1 if self._continues else 0
        end = self._tail.rfind("\n") + 1
        found = self._fence.closing.search(self._tail, max(first, self._scanned), end)
        if found is None or found.start() < first:
            self._scanned = max(self._scanned, end)
            return False
        code = self._code(self._tail[: found.start()])
        self.closed.append(Block("code", code, self._fence.language, True, self._continues))
        self._tail, self._fence = self._tail[found.end() :], None
        self._continues, self._scanned = False, 0
        return True

    def _close_piece(self) -> None:
        limit = self._limit()
        if self._fence is not None:
            # The line break begins the next piece, because it may be the code's last.
            size = max(0, self._tail.rfind("\n", limit // 2, limit)) or limit
            piece, self._tail = self._tail[:size], self._tail[size:]
            code = self._indented(piece)
            self.closed.append(Block("code", code, self._fence.language, False, self._continues))
            self._continues, self._scanned = True, 0
            return
        size = self._tail.rfind("\n", limit // 2, limit) + 1 or limit
        size = min(size, _after_most_lines(self._tail) or size)
        found = find_blocks(self._tail[:size])
        if found and found[-1].last_item:
            # The next piece begins with the last item: the rest of one would be no list.
            size = found[-1].start + found[-1].last_item
            found = find_blocks(self._tail[:size])
        piece, self._tail = self._tail[:size], self._tail[size:]
        if any(len(each.blocks) > 1 for each in found):
            self.closed += _all_closed(found)
        else:
            self.closed.append(Block("prose" if "\n" in piece else "plain", piece))

    def _open_blocks(self, ended: bool = False) -> list[Block]:
        if self._fence is not None:
            if self._continues and not self._tail and not ended:
                return []
            code = self._open_code(self._fence, ended)
            return [Block("code", code, self._fence.language, ended, self._continues)]
        if not self._tail.strip():
            return []
        found = find_blocks(self._tail)
        return _all_closed(found) if ended else [block for each in found for block in each.blocks]

    def _code(self, listing: str) -> str:
        return self._indented(listing).removesuffix("\n")

    def _indented(self, listing: str) -> str:
        assert self._fence is not None
        if not self._fence.indent:
            return listing
        first = listing.find("\n") + 1 or len(listing) if self._continues else 0
        pattern = rf"^ {{1,{self._fence.indent}}}"
        return listing[:first] + re.sub(pattern, "", listing[first:], flags=re.MULTILINE)

    def _open_code(self, fence: Fence, ended: bool) -> str:
        last = self._tail.rfind("\n") + 1
        is_line = last > 0 or not self._continues
        end = fence.closing if ended else _FENCE_MARKS
        is_end = is_line and end.fullmatch(self._tail, last)
        return self._code(self._tail[:last] if is_end else self._tail)


def _all_closed(found: Sequence[Found]) -> list[Block]:
    return [replace(block, closed=True) for each in found for block in each.blocks]


def _after_most_lines(text: str) -> int | None:
    end = weight = 0
    for line in text.split("\n")[:-1]:
        end += len(line) + 1
        weight += 1 + (len(line) - len(line.lstrip(_LINE_MARKS))) // MARKS_OF_A_LINE
        if weight >= MOST_LINES:
            return end
    return None
