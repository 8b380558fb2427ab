"""Text from outside, prepared for Qt widgets: shortened, breakable, never taken for HTML."""

from __future__ import annotations

import re
import textwrap

# QtCore's namespace Qt lacks mightBeRichText.
from PySide6.QtGui import Qt

LONGEST_TIP = 1_000
TIP_COLUMNS = 90
# Qt breaks lines only between words, and a label is never narrower than its longest word.
_LONG_WORD = re.compile(r"\S{40,}")
_PIECE = 20
# Spaces that must not break: between number and unit, inside a size, before a middle dot.
_KEPT_SPACE = re.compile(
    r"(?<=\d) (?=(?:[KMGT]?B|s|min|%|[Tt]okens?(?:/s)?)(?![\w/])|x \d)|(?<=\d x) (?=\d)"
    r"| (?=\N{MIDDLE DOT} )"
)
# Qt breaks after a slash.
_RATE = re.compile(r"(?<=[Tt]oken)(s?)/(?=s\b)")
# Invisible though Python calls them printable: Unicode's default-ignorable code points, and the
# blank letters of Braille and Hangul.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units, which Qt counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def tip(text: str) -> str:
    """Break it into lines that fit on a screen."""
    lines = shortened(text, LONGEST_TIP).split("\n")
    folded = "\n".join(piece for line in lines for piece in _folded(line))
    if not Qt.mightBeRichText(folded):
        return folded
    return Qt.convertFromPlainText(folded, Qt.WhiteSpaceMode.WhiteSpaceNormal)


def breakable(text: str) -> str:
    """With break points in very long words, and none between number and unit."""
    kept = _KEPT_SPACE.sub("\N{NO-BREAK SPACE}", text)
    kept = _RATE.sub("\\1/\N{WORD JOINER}", kept)
    return _LONG_WORD.sub(lambda word: "\N{ZERO WIDTH SPACE}".join(_pieces(word[0])), kept)


def unbroken(text: str) -> str:
    """Undoes `breakable`, also for a part."""
    for invisible in ("\N{ZERO WIDTH SPACE}", "\N{WORD JOINER}"):
        text = text.replace(invisible, "")
    return text.replace("\N{NO-BREAK SPACE}", " ")


def is_seen(character: str) -> bool:
    """False for invisible characters and those that change the line's direction."""
    return character.isprintable() and not _UNSEEN.match(character)


def visible(text: str) -> str:
    """Invisible and direction-changing characters become <U+202E>."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if is_seen(each) else f"<U+{ord(each):04X}>" for each in text)


def _folded(line: str) -> list[str]:
    return textwrap.wrap(line, TIP_COLUMNS, drop_whitespace=False) or [""]


def _pieces(word: str) -> list[str]:
    return [word[start : start + _PIECE] for start in range(0, len(word), _PIECE)]
