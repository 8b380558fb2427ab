r"""Parser rules that keep mathematics as it was written, until it is rendered.

`\(...\)`, `\[...\]` and `$$...$$` are mathematics; `$...$` is only where its contents say so,
because a dollar sign is usually a currency sign. A formula that is still being streamed counts too.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

MATH = "math"
# Bounds the search from each dollar sign.
LONGEST_DOLLARS = 500

_CLOSERS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_BLOCK_OPENERS = ("\\[", "$$")
# A dollar sign after one of these opens nothing: `US$5`, `\$5`.
_BEFORE_DOLLAR = re.compile(r"[\w\\$]")
_OPERATOR = re.compile(r"[\\^_{}=]")
_BETWEEN_OPERANDS = re.compile(r"[\w)][*+/<>|-]+[\w(]")
_COMMAND = re.compile(r"\\[A-Za-z]+(?:\{[^{}]*\})?")
_WORD = re.compile(r"[A-Za-z]{2,}")


def enable_math(parser: MarkdownIt) -> None:
    """Add the rules to a parser."""
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", "math_block", _math_block, interrupts)
    parser.inline.ruler.before("escape", "math_inline", _math_inline)


def _math_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Keep the lines of a displayed formula in one paragraph: they are no list and no heading."""
    if state.is_code_block(first):
        return False
    start = state.bMarks[first] + state.tShift[first]
    opener, rest = state.src[start : start + 2], state.src[start + 2 : state.eMarks[first]]
    # One on a single line is the paragraph's business.
    if opener not in _BLOCK_OPENERS or _CLOSERS[opener] in rest:
        return False
    if opener == "$$" and rest.strip() and not _is_formula(rest):
        return False
    if silent:
        return True
    state.line = _line_after(state, first, end, _CLOSERS[opener])
    content = state.getLines(first, state.line, state.blkIndent, False).strip()
    # Not a paragraph's tokens: in a list without empty lines those are left out.
    token = state.push("math_open", "p", 1)
    token.map = [first, state.line]
    token = state.push("inline", "", 0)
    token.content, token.map, token.children = content, [first, state.line], []
    state.push("math_close", "p", -1)
    return True


def _line_after(state: StateBlock, first: int, end: int, closer: str) -> int:
    """The line after the one that closes a formula, or after the last that can belong to it."""
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
    """The end of the formula at `start`; None if none begins there."""
    opener = text[start : start + 2]
    if opener in _CLOSERS:
        end = text.find(_CLOSERS[opener], start + 2, limit)
        if end >= 0:
            return end + 2
        # Not closed yet. Dollar signs alone say nothing, unless they have a line of their own.
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
    return start + end + 2 if closes and _is_formula(inside) else None


def _is_formula(text: str) -> bool:
    """True if what stands between dollar signs is clearly mathematics."""
    text = text[:LONGEST_DOLLARS].strip()
    if not text or "`" in text or (text[0].isdigit() and _has_words(text)):
        return False
    if _OPERATOR.search(text):
        return True
    return not re.search(r"\s", text) and _BETWEEN_OPERANDS.search(text) is not None


def _has_words(text: str) -> bool:
    return _WORD.search(_COMMAND.sub("", text)) is not None
