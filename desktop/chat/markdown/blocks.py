"""The top-level blocks of a Markdown text.

A list with code is several blocks, so that its code is drawn like any other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Literal

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from desktop.chat.markdown.parser import make_parser

# A larger table is shown as code: Qt needs as long for a cell as for a hundred letters.
MOST_CELLS = 128
TABLE = "table"
_LISTS = ("bullet_list", "ordered_list")
_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)])( *)(.*)", re.DOTALL)


_PARSER = make_parser()
_PARSER.core.ruler.enableOnly(["normalize", "block"])


@dataclass(frozen=True, slots=True)
class Block:
    """`source` is Markdown for prose, else bare text. `continues`: the code of the block before
    goes on. `depth`: list items around it."""

    kind: Literal["prose", "code", "plain"]
    source: str
    language: str = ""
    closed: bool = True
    continues: bool = False
    depth: int = 0

    def extends(self, before: Block | None) -> bool:
        """True for the code of `before` with more text or a closed fence."""
        if before is None or self.kind != "code":
            return False
        known = (before.kind, before.language, before.depth)
        return known == (self.kind, self.language, self.depth)


@dataclass(frozen=True, slots=True)
class Fence:
    indent: int
    closing: re.Pattern[str]
    language: str


@dataclass(frozen=True, slots=True)
class Found:
    """`last_item`: where the last item of a list with code begins, else 0."""

    start: int
    blocks: tuple[Block, ...]
    fence: Fence | None
    is_large_table: bool
    last_item: int = 0


@lru_cache(maxsize=1)
def find_blocks(text: str) -> tuple[Found, ...]:
    """Cached: a full block is searched for its end, and for where to split it."""
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    found = []
    tokens = _PARSER.parse(text)
    for at, token in enumerate(tokens):
        # Closing tokens carry no lines, so each block is met once.
        if token.level == 0 and token.map:
            first, end = token.map
            source = "\n".join(lines[first:end])
            tree = _list_with_code(tokens, at)
            if tree is not None:
                blocks = _list_blocks([line.expandtabs(4) for line in lines], tree, 0, 0)
                last = sum(len(line) + 1 for line in lines[first : _lines(tree.children[-1])[0]])
                found.append(Found(starts[first], tuple(blocks), None, False, last))
                continue
            fence = _opening(source, token)
            is_large = token.type == "table_open" and _count_cells(source) > MOST_CELLS
            block = Block("code", source, TABLE) if is_large else _block(source, token, fence)
            found.append(Found(starts[first], (block,), fence, is_large))
    return tuple(found)


def _list_with_code(tokens: list[Token], begin: int) -> SyntaxTreeNode | None:
    if tokens[begin].type.removesuffix("_open") not in _LISTS:
        return None
    end = next(at for at in range(begin + 1, len(tokens)) if tokens[at].level == 0)
    if not any(token.type == "fence" for token in tokens[begin:end]):
        return None
    tree = SyntaxTreeNode(tokens[begin : end + 1]).children[0]
    return tree if _has_code(tree) else None


def _has_code(node: SyntaxTreeNode) -> bool:
    """Code in a quote is drawn with the quote."""
    kinds = ("fence", "list_item", *_LISTS)
    inside = [child for child in node.children if child.type in kinds]
    return any(child.type == "fence" or _has_code(child) for child in inside)


def _list_blocks(lines: list[str], tree: SyntaxTreeNode, indent: int, depth: int) -> list[Block]:
    """The code of a list, and the prose between; changes `lines`. `indent`: columns before the
    marks."""
    blocks: list[Block] = []
    begin, end = _lines(tree)
    for number, item in enumerate(tree.children):
        first, after = _lines(item)
        found = _ITEM.match(lines[first])
        if found is None:
            continue
        margin, mark, space, words = found.groups()
        column = len(margin + mark) + (len(space) if words and len(space) <= 4 else 1)
        if tree.type == "ordered_list":
            # Written out, because after code the list would count from the start again.
            mark = f"{int(tree.attrs.get('start', 1)) + number}{mark[-1]}"
            lines[first] = margin + mark + space + words
        here, inside = indent, depth
        for child in item.children:
            if child.type != "fence" and not (child.type in _LISTS and _has_code(child)):
                continue
            child_first, child_end = _lines(child)
            if child_first == first:
                # The item begins with the code.
                blocks += _prose([*lines[begin:first], margin + mark], here, inside)
                lines[first] = " " * column + found[0][column:]
            else:
                blocks += _prose(lines[begin:child_first], here, inside)
            if child.type == "fence":
                blocks.append(_nested_code(lines[child_first:child_end], child, column, depth + 1))
            else:
                blocks += _list_blocks(lines, child, column, depth + 1)
            begin, here, inside = child_end, column, depth + 1
        if inside != depth:
            blocks += _prose(lines[begin:after], here, inside)
            begin = after
    return blocks + _prose(lines[begin:end], indent, depth)


def _prose(lines: list[str], indent: int, depth: int) -> list[Block]:
    source = "\n".join(_dedented(line, indent) for line in lines).strip("\n")
    return [Block("prose", source, depth=depth)] if source.strip() else []


def _nested_code(lines: list[str], fence: SyntaxTreeNode, indent: int, depth: int) -> Block:
    token = fence.token
    assert token is not None
    block = _block("", token, _opening("\n".join(_dedented(line, indent) for line in lines), token))
    return replace(block, depth=depth)


def _dedented(line: str, columns: int) -> str:
    return line[min(columns, len(line) - len(line.lstrip(" "))) :]


def _lines(node: SyntaxTreeNode) -> tuple[int, int]:
    assert node.map is not None
    return node.map


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
    if token.type != "fence":
        return None
    mark = re.escape(token.markup[0])
    closing = re.compile(rf"^ {{0,3}}{mark}{{{len(token.markup)},}}[ \t]*(?:\n|\Z)", re.MULTILINE)
    first_line = source.find("\n")
    if first_line >= 0 and closing.search(source, first_line + 1):
        return None
    return Fence(len(source) - len(source.lstrip(" ")), closing, _language(token.info))


def _language(info: str) -> str:
    return info.strip().split(maxsplit=1)[0][:40] if info.strip() else ""
