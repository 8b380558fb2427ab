"""Splits a growing Markdown text into top-level blocks, reading again only the last one.

Knows when a block can no longer change: once a later block has begun on a complete line. (Link
reference definitions, which could reach back, are shown as text.) Nothing here draws; the sizes at
which a text is no longer worth parsing are decided here, for hostile text must not cost more than
its length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.rules_block import table
from markdown_it.token import Token

# A longer paragraph or list is shown as plain text, in pieces of this many characters.
LONGEST_BLOCK = 20_000
# From here on an open block is read again only once it has grown by this share of itself: words
# still come at a pace to read, and the whole costs a fixed number of readings.
LARGE_BLOCK = 8_000
GROWTH = 1 / 50
# A longer listing goes on in a second one.
LONGEST_CODE = 200_000
# From this many blocks on, neighbours are put together: each block costs a widget.
MOST_BLOCKS = 256
LATE_BLOCK = 8_000
# What Qt's text documents keep for themselves, and halves of characters that came in two.
_UNSHOWABLE = re.compile("[\x00\ufdd0-\ufdef\ufffc\u2029\ud800-\udfff]")


def make_parser() -> MarkdownIt:
    """CommonMark without HTML and without link definitions, with tables and strikethrough."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").disable("reference")
    # Tables come after fences here: a line that opens a listing must not become a table's head
    # when the next line arrives.
    parser.block.ruler.after("fence", "late_table", table, {"alt": ["paragraph", "reference"]})
    return parser


_PARSER = make_parser()
_PARSER.core.ruler.enableOnly(["normalize", "block"])


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level block: `source` is Markdown for prose, the bare text for code and plain."""

    kind: Literal["prose", "code", "plain"]
    source: str
    language: str = ""
    closed: bool = True


@dataclass(frozen=True, slots=True)
class _Fence:
    """An opening line of a listing: how far it is indented and what closes it."""

    indent: int
    closing: re.Pattern[str]
    language: str


class BlockStream:
    """The blocks of a text that grows: `closed` never change, `open` may with the next word."""

    def __init__(self) -> None:
        self.closed: list[Block] = []
        self.open: list[Block] = []
        self._tail = ""  # the source of the open blocks
        self._held = ""  # a carriage return whose line feed may still come
        self._fence: _Fence | None = None  # the tail is a listing that has not ended
        self._scanned = 0  # how much of that listing was searched for its end

    def append(self, text: str) -> None:
        """Read on. Costs the length of `text` and of the open block, not of the whole."""
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        text = _UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text)
        while text:
            # Never more at a time than a block may hold, so that no step parses more than that.
            room = min(LONGEST_BLOCK, self._limit() - len(self._tail))
            piece, text = text[:room], text[room:]
            self._tail += piece
            # Only a complete line can end a block.
            if "\n" in piece or len(self._tail) >= self._limit():
                self._close_what_is_complete()
        self.open = self._open_blocks()

    def finish(self) -> None:
        """The text is complete: whatever is open is closed as it stands."""
        self.append("\n" if self._held else "")
        self._held = ""
        ended = self._open_blocks(ended=True)
        self.closed += ended
        self.open, self._tail, self._fence, self._scanned = [], "", None, 0

    def patience(self) -> int:
        """How many characters more are worth reading the open blocks again for."""
        is_large = self._fence is None and len(self._tail) > LARGE_BLOCK
        return int(len(self._tail) * GROWTH) if is_large else 0

    def _limit(self) -> int:
        return LONGEST_CODE if self._fence else LONGEST_BLOCK

    def _close_what_is_complete(self) -> None:
        """Move every block to `closed` that no later text can change."""
        moved = True
        while moved:
            moved = self._close_listing() if self._fence else self._close_prose()
        while len(self._tail) >= self._limit():
            self._close_piece()

    def _close_prose(self) -> bool:
        """Close all blocks but the last among the complete lines; see whether that is a listing."""
        complete = self._tail[: self._tail.rfind("\n") + 1]
        late = len(self.closed) >= MOST_BLOCKS
        if late and len(complete) < LATE_BLOCK:
            return False
        found = _find_blocks(complete)
        if not found:
            return False
        last = found[-1]
        self._tail = self._tail[last.start :]
        if late:
            self.closed += [Block("prose", complete[: last.start])] if last.start else []
            return False
        budget = MOST_BLOCKS - len(self.closed)
        self.closed += [each.block for each in found[:-1][:budget]]
        if len(found) - 1 > budget:
            self.closed.append(Block("prose", complete[found[budget].start : last.start]))
        self._fence = last.fence
        return self._fence is not None

    def _close_listing(self) -> bool:
        """Look for the end of the listing in the complete lines that came since the last look."""
        assert self._fence is not None
        if not self._scanned:
            self._scanned = self._tail.find("\n") + 1
        end = self._tail.rfind("\n") + 1
        found = self._fence.closing.search(self._tail, self._scanned, end)
        if found is None:
            self._scanned = max(self._scanned, end)
            return False
        code = self._code(self._tail[: found.start()])
        self.closed.append(Block("code", code, self._fence.language))
        self._tail, self._fence, self._scanned = self._tail[found.end() :], None, 0
        return True

    def _close_piece(self) -> None:
        """Close a block that has grown too long, at a line's end if there is one."""
        limit = self._limit()
        size = self._tail.rfind("\n", limit // 2, limit) + 1 or limit
        piece, self._tail = self._tail[:size], self._tail[size:]
        if self._fence is None:
            self.closed.append(Block("plain", piece))
            return
        self.closed.append(Block("code", self._code(piece), self._fence.language))
        # The rest goes on under an opening line of its own.
        opening = piece[: piece.find("\n") + 1]
        self._tail, self._scanned = opening + self._tail, len(opening)

    def _open_blocks(self, ended: bool = False) -> list[Block]:
        if not self._tail.strip():
            return []
        if self._fence is not None:
            return [Block("code", self._open_code(), self._fence.language, closed=ended)]
        if len(self.closed) >= MOST_BLOCKS:
            return [Block("prose", self._tail)]
        blocks = [each.block for each in _find_blocks(self._tail)]
        return [replace(block, closed=True) for block in blocks] if ended else blocks

    def _code(self, listing: str) -> str:
        """The lines of a listing without its opening line and that line's indentation."""
        assert self._fence is not None
        code = listing[listing.find("\n") + 1 :]
        if self._fence.indent:
            code = re.sub(rf"^ {{1,{self._fence.indent}}}", "", code, flags=re.MULTILINE)
        return code.removesuffix("\n")

    def _open_code(self) -> str:
        # A last line of nothing but fence marks is most likely the beginning of the end.
        return re.sub(r"(^|\n) {0,3}(`+|~+)$", "", self._code(self._tail))


def split_blocks(text: str) -> list[Block]:
    """All blocks of a complete text."""
    stream = BlockStream()
    stream.append(text)
    stream.finish()
    return stream.closed


@dataclass(frozen=True, slots=True)
class _Found:
    """A block, where its source begins, and the fence that it leaves open."""

    start: int
    block: Block
    fence: _Fence | None


def _find_blocks(text: str) -> list[_Found]:
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    found = []
    for token in _PARSER.parse(text):
        # Closing tokens of containers carry no lines, so each block is met once.
        if token.level == 0 and token.map:
            source = "\n".join(lines[token.map[0] : token.map[1]])
            fence = _opening(source, token)
            found.append(_Found(starts[token.map[0]], _block(source, token, fence), fence))
    return found


def _block(source: str, token: Token, fence: _Fence | None) -> Block:
    if token.type != "fence":
        return Block("prose", source)
    code = token.content.removesuffix("\n")
    return Block("code", code, _language(token.info), closed=fence is None)


def _opening(source: str, token: Token) -> _Fence | None:
    """The fence that a block opens and does not close; None for any other block."""
    if token.type != "fence":
        return None
    mark = re.escape(token.markup[0])
    closing = re.compile(rf"^ {{0,3}}{mark}{{{len(token.markup)},}}[ \t]*(?:\n|\Z)", re.MULTILINE)
    first_line = source.find("\n")
    if first_line >= 0 and closing.search(source, first_line + 1):
        return None
    return _Fence(len(source) - len(source.lstrip(" ")), closing, _language(token.info))


def _language(info: str) -> str:
    """The first word after a fence's marks."""
    return info.strip().split(maxsplit=1)[0][:40] if info.strip() else ""
