"""Words that came from outside, made fit to be shown as words.

In some places Qt guesses whether it was given HTML, and HTML may name files, which Qt then opens.
Knows that guess, how much a person reads of a label or a tool tip, and which characters are not
seen. Leaves the widgets to `desktop.widgets.plain`.
"""

from __future__ import annotations

import re
import textwrap

# The namespace of this name in QtCore lacks what is asked here.
from PySide6.QtGui import Qt

LONGEST_TIP = 1_000
TIP_COLUMNS = 90
# Qt's labels break lines between words only, and are never narrower than their longest word.
_LONG_WORD = re.compile(r"\S{40,}")
_PIECE = 20
# And they part a number from its unit or a size in two, or begin a line with a dot between words.
_KEPT_SPACE = re.compile(
    r"(?<=\d) (?=(?:[KMGT]?B|s|min|%|tokens?(?:/s)?)(?![\w/])|x \d)|(?<=\d x) (?=\d)"
    r"| (?=\N{MIDDLE DOT} )"
)
# Unicode's default-ignorable code points, and the blank letters of Braille and Hangul: Python takes
# them for printable, and nothing of them is seen.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def shortened(text: str, most: int) -> str:
    """At most so many characters of a text, ending in an ellipsis where it goes on."""
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def tip(text: str) -> str:
    """What to give Qt as a tool tip for it to show this text, in lines that fit on a screen."""
    lines = shortened(text, LONGEST_TIP).split("\n")
    folded = "\n".join(piece for line in lines for piece in _folded(line))
    if not Qt.mightBeRichText(folded):
        return folded
    return Qt.convertFromPlainText(folded, Qt.WhiteSpaceMode.WhiteSpaceNormal)


def breakable(text: str) -> str:
    """The text with lines that may end inside very long words, and not between number and unit."""
    kept = _KEPT_SPACE.sub("\N{NO-BREAK SPACE}", text)
    return _LONG_WORD.sub(lambda word: "\N{ZERO WIDTH SPACE}".join(_pieces(word[0])), kept)


def unbroken(text: str) -> str:
    """What `breakable` was given, of all it made or of a part."""
    return text.replace("\N{ZERO WIDTH SPACE}", "").replace("\N{NO-BREAK SPACE}", " ")


def is_seen(character: str) -> bool:
    """Whether a reader would see a character, and it leaves the line as it is."""
    return character.isprintable() and not _UNSEEN.match(character)


def visible(text: str) -> str:
    """The text with every character that is not seen, or turns the line around, as <U+202E>."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if is_seen(each) else f"<U+{ord(each):04X}>" for each in text)


def _folded(line: str) -> list[str]:
    return textwrap.wrap(line, TIP_COLUMNS, drop_whitespace=False) or [""]


def _pieces(word: str) -> list[str]:
    return [word[start : start + _PIECE] for start in range(0, len(word), _PIECE)]
