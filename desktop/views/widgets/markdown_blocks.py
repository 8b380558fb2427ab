"""Finds the top-level blocks of a Markdown text: where each begins, and what it leaves open.

Knows the parser, which blocks are listings, and from which size on a table is one. Nothing here
draws or remembers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.rules_block import table
from markdown_it.token import Token

from desktop.views.widgets.markdown_marks import enable_marks
from desktop.views.widgets.markdown_math import enable_math

# A table of more cells is a listing: Qt lays out a cell in the time of a hundred letters.
MOST_CELLS = 128
TABLE = "table"


def make_parser() -> MarkdownIt:
    """CommonMark without HTML and link definitions, with what models write beyond it."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").disable("reference")
    # Tables come after fences here: a line that opens a listing must not become a table's head
    # when the next line arrives.
    parser.block.ruler.after("fence", "late_table", table, {"alt": ["paragraph", "reference"]})
    enable_math(parser)
    enable_marks(parser)
    return parser


_PARSER = make_parser()
_PARSER.core.ruler.enableOnly(["normalize", "block"])


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level block: `source` is Markdown for prose, the bare text for code and plain.

    Code that `continues` belongs to the same listing as the block before it, without a gap.
    """

    kind: Literal["prose", "code", "plain"]
    source: str
    language: str = ""
    closed: bool = True
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """An opening line of a listing: how far it is indented and what closes it."""

    indent: int
    closing: re.Pattern[str]
    language: str


@dataclass(frozen=True, slots=True)
class Found:
    """A block, where its source begins, and the fence that it leaves open."""

    start: int
    block: Block
    fence: Fence | None
    is_large_table: bool


def find_blocks(text: str) -> list[Found]:
    """All top-level blocks of a text, in order."""
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    found = []
    for token in _PARSER.parse(text):
        # Closing tokens of containers carry no lines, so each block is met once.
        if token.level == 0 and token.map:
            source = "\n".join(lines[token.map[0] : token.map[1]])
            fence = _opening(source, token)
            is_large = token.type == "table_open" and _count_cells(source) > MOST_CELLS
            block = Block("code", source, TABLE) if is_large else _block(source, token, fence)
            found.append(Found(starts[token.map[0]], block, fence, is_large))
    return found


def _count_cells(table: str) -> int:
    lines = table.rstrip("\n").split("\n")
    # The second line has a cell of dashes for each column.
    return (lines[1].strip().strip("|").count("|") + 1) * (len(lines) - 1)


def _block(source: str, token: Token, fence: Fence | None) -> Block:
    if token.type != "fence":
        return Block("prose", source)
    code = token.content.removesuffix("\n")
    return Block("code", code, _language(token.info), closed=fence is None)


def _opening(source: str, token: Token) -> Fence | None:
    """The fence that a block opens and does not close; None for any other block."""
    if token.type != "fence":
        return None
    mark = re.escape(token.markup[0])
    closing = re.compile(rf"^ {{0,3}}{mark}{{{len(token.markup)},}}[ \t]*(?:\n|\Z)", re.MULTILINE)
    first_line = source.find("\n")
    if first_line >= 0 and closing.search(source, first_line + 1):
        return None
    return Fence(len(source) - len(source.lstrip(" ")), closing, _language(token.info))


def _language(info: str) -> str:
    """The first word after a fence's marks."""
    return info.strip().split(maxsplit=1)[0][:40] if info.strip() else ""
