r"""CommonMark with formulas, task lists, footnotes and three HTML tags.

`\(...\)`, `\[...\]` and `$$...$$` are formulas; `$...$` only if it looks like one. `<sub>`, `<sup>`
and `<br>` are the only tags.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

MATH, FOOTNOTE_REF = "math", "footnote_ref"
# Bounds the search from each dollar sign.
LONGEST_DOLLARS = 500

_CLOSERS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_BLOCK_OPENERS = ("\\[", "$$")
# A dollar sign after one of these opens nothing: `US$5`, `\$5`.
_BEFORE_DOLLAR = re.compile(r"[\w\\$]")
_OPERATOR = re.compile(r"[\\^_{}=]")
_BETWEEN_OPERANDS = re.compile(r"[\w)][*+/<>|-]+[\w(]")
# n, n!, f', f(x) or P(A, B).
_SYMBOL = re.compile(r"[A-Za-z](?:[!']|\([A-Za-z0-9, ]{1,20}\))?")
_COMMAND = re.compile(r"\\[A-Za-z]+(?:\{[^{}]*\})?")
_WORD = re.compile(r"[A-Za-z]{2,}")


def make_parser() -> MarkdownIt:
    """Without HTML and link definitions."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").disable("reference")
    block, inline = parser.block.ruler, parser.inline.ruler
    # Tables after fences: a line that opens a code block must not become a table's head when the
    # next line arrives.
    block.after("fence", "late_table", table, {"alt": ["paragraph", "reference"]})
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    block.before("fence", "math_block", _math_block, interrupts)
    block.before("paragraph", "footnote", _footnote, {"alt": ["paragraph"]})
    inline.before("escape", "math_inline", _math_inline)
    inline.before("link", FOOTNOTE_REF, _footnote_ref)
    inline.before("autolink", "tag", _tag)
    parser.core.ruler.push("tasks", _tasks)
    return parser


def _math_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Formulas of several lines must not become lists or headings."""
    if state.is_code_block(first):
        return False
    start = state.bMarks[first] + state.tShift[first]
    opener, rest = state.src[start : start + 2], state.src[start + 2 : state.eMarks[first]]
    # A formula on one line is inline.
    if opener not in _BLOCK_OPENERS or _CLOSERS[opener] in rest:
        return False
    if opener == "$$" and rest.strip() and not _is_formula(rest):
        return False
    if silent:
        return True
    state.line = _line_after(state, first, end, _CLOSERS[opener])
    content = state.getLines(first, state.line, state.blkIndent, False).strip()
    # Own token types: a tight list omits its paragraphs' tokens.
    token = state.push("math_open", "p", 1)
    token.map = [first, state.line]
    token = state.push("inline", "", 0)
    token.content, token.map, token.children = content, [first, state.line], []
    state.push("math_close", "p", -1)
    return True


def _line_after(state: StateBlock, first: int, end: int, closer: str) -> int:
    for line in range(first + 1, end):
        if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            return line
        if state.src.find(closer, state.bMarks[line], state.eMarks[line]) >= 0:
            return line + 1
    return end


def _math_inline(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "\\$":
        return False
    end = _math_end(state.src, state.pos, state.posMax)
    if end is None:
        return False
    if not silent:
        token = state.push(MATH, "", 0)
        token.content = state.src[state.pos : end]
    state.pos = end
    return True


def _math_end(text: str, start: int, limit: int) -> int | None:
    opener = text[start : start + 2]
    if opener in _CLOSERS:
        end = text.find(_CLOSERS[opener], start + 2, limit)
        if end >= 0:
            return end + 2
        # Not closed yet. Dollar signs count only on a line of their own or before a formula.
        rest = text[start + 2 : limit]
        is_formula = opener != "$$" or rest[:1] == "\n" or _is_formula(rest)
        return limit if is_formula else None
    if text[start] != "$" or (start and _BEFORE_DOLLAR.match(text[start - 1])):
        return None
    return _dollar_end(text, start, limit)


def _dollar_end(text: str, start: int, limit: int) -> int | None:
    rest = text[start + 1 : min(limit, start + 1 + LONGEST_DOLLARS)].partition("\n")[0]
    if not rest or rest[0].isspace():
        return None
    end = rest.find("$")
    while end > 0 and rest[end - 1] == "\\":
        end = rest.find("$", end + 1)
    if end < 0:
        # Still being streamed, unless it is a price or the name of a variable.
        is_end = start + 1 + len(rest) == limit
        is_name = rest[0].isdigit() or _has_words(rest)
        return limit if is_end and not is_name and _is_formula(rest) else None
    inside, after = rest[:end], rest[end + 1 : end + 2]
    closes = not inside[-1:].isspace() and not re.match(r"\w", after)
    is_formula = _is_formula(inside) or _SYMBOL.fullmatch(inside)
    return start + end + 2 if closes and is_formula else None


def _is_formula(text: str) -> bool:
    text = text[:LONGEST_DOLLARS].strip()
    if not text or "`" in text or (text[0].isdigit() and _has_words(text)):
        return False
    if _OPERATOR.search(text):
        return True
    return not re.search(r"\s", text) and _BETWEEN_OPERANDS.search(text) is not None


def _has_words(text: str) -> bool:
    return _WORD.search(_COMMAND.sub("", text)) is not None


# Bounds the search for the end of `<sub>` and `<sup>`.
LONGEST_MARK = 300
UNCHECKED, CHECKED = "\N{BALLOT BOX}", "\N{BALLOT BOX WITH CHECK}"

_TAG = re.compile(r"<(?:(su[bp])>|br[ \t]*/?>)", re.IGNORECASE)
_REF = re.compile(r"\[\^(\d{1,4})\]")
_FOOTNOTE = re.compile(r"\[\^(\d{1,4})\]:[ \t]+(?=\S)")
_TASK = re.compile(r"\[([ xX])\](?=[ \t]+\S)")


def _footnote(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Only numbers: `[^a-z]` may be a regular expression."""
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
    """A list of tasks alone has no bullets."""
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
    if len(begin) < 2 or begin[1].type != "inline":
        return False
    found, children = _TASK.match(begin[1].content), begin[1].children or []
    if found is None or not children or not children[0].content.startswith(found[0]):
        return False
    box = UNCHECKED if found[1] == " " else CHECKED
    children[0].content = box + children[0].content[len(found[0]) :]
    return True
