"""Parser rules for what models write beyond CommonMark: task lists, footnotes, and three HTML tags.

`<sub>`, `<sup>` and `<br>` are the only tags that mean anything; all other HTML is text. A footnote
has a number, since `[^a-z]` may as well be a regular expression.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

FOOTNOTE_REF = "footnote_ref"
# Bounds the search for the end of `<sub>` and `<sup>`.
LONGEST_MARK = 300
UNCHECKED, CHECKED = "\N{BALLOT BOX}", "\N{BALLOT BOX WITH CHECK}"

_TAG = re.compile(r"<(?:(su[bp])>|br[ \t]*/?>)", re.IGNORECASE)
_REF = re.compile(r"\[\^(\d{1,4})\]")
_FOOTNOTE = re.compile(r"\[\^(\d{1,4})\]:[ \t]+(?=\S)")
_TASK = re.compile(r"\[([ xX])\](?=[ \t]+\S)")


def enable_marks(parser: MarkdownIt) -> None:
    """Add the rules to a parser."""
    parser.block.ruler.before("paragraph", "footnote", _footnote, {"alt": ["paragraph"]})
    parser.inline.ruler.before("link", FOOTNOTE_REF, _footnote_ref)
    parser.inline.ruler.before("autolink", "tag", _tag)
    parser.core.ruler.push("tasks", _tasks)


def _footnote(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """A footnote's text, where it was written: `[^1]: text`."""
    start = state.bMarks[first] + state.tShift[first]
    found = _FOOTNOTE.match(state.src, start, state.eMarks[first])
    if state.is_code_block(first) or found is None:
        return False
    if silent:
        return True
    last = first + 1
    while last < end and not state.isEmpty(last) and state.sCount[last] >= state.blkIndent:
        if _FOOTNOTE.match(state.src, state.bMarks[last] + state.tShift[last]):
            break
        last += 1
    words = state.getLines(first, last, state.blkIndent, False).strip()
    state.line = last
    token = state.push("footnote_open", "p", 1)
    token.map, token.info = [first, last], found[1]
    token = state.push("inline", "", 0)
    token.content, token.map, token.children = words[found.end() - start :], [first, last], []
    state.push("footnote_close", "p", -1)
    return True


def _footnote_ref(state: StateInline, silent: bool) -> bool:
    found = _REF.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push(FOOTNOTE_REF, "", 0).content = found[1]
    state.pos = found.end()
    return True


def _tag(state: StateInline, silent: bool) -> bool:
    found = _TAG.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if found[1] is None:
        if not silent:
            state.push("hardbreak", "br", 0)
        state.pos = found.end()
        return True
    tag = found[1].lower()
    limit = min(state.posMax, found.end() + LONGEST_MARK)
    end = state.src[found.end() : limit].lower().find(f"</{tag}>")
    if end < 0:
        return False
    after = state.posMax
    if not silent:
        state.pos, state.posMax = found.end(), found.end() + end
        state.push(f"{tag}_open", tag, 1)
        state.md.inline.tokenize(state)
        state.push(f"{tag}_close", tag, -1)
    state.pos, state.posMax = found.end() + end + len(f"</{tag}>"), after
    return True


def _tasks(state: StateCore) -> None:
    """A box in place of `[ ]` and `[x]` at the beginning of a list's item.

    A list of nothing but tasks has no bullets beside its boxes.
    """
    lists: list[tuple[Token, list[bool]]] = []
    for at, token in enumerate(state.tokens):
        if token.type in ("bullet_list_open", "ordered_list_open"):
            lists.append((token, []))
        elif token.type == "list_item_open":
            lists[-1][1].append(_draw_box(state.tokens[at + 1 : at + 3]))
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            opening, boxes = lists.pop()
            if opening.type == "bullet_list_open" and all(boxes):
                opening.attrSet("style", "list-style-type: none")


def _draw_box(begin: list[Token]) -> bool:
    """Draw the box of a list's item, if its first two tokens begin with one."""
    if len(begin) < 2 or begin[1].type != "inline":
        return False
    found, children = _TASK.match(begin[1].content), begin[1].children or []
    if found is None or not children or not children[0].content.startswith(found[0]):
        return False
    box = UNCHECKED if found[1] == " " else CHECKED
    children[0].content = box + children[0].content[len(found[0]) :]
    return True
