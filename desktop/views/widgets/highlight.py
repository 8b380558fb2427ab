"""Which words of a listing are drawn in which colour.

Knows Pygments, and when a listing is too large for it. Its answer depends on the text and the
language alone, so it is kept; the colours themselves come from the theme. No widgets.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

# Where in a line (in UTF-16 units, as Qt counts), how long, and the name of a colour.
Span = tuple[int, int, str]

# Lexers take time with the square of blank lines (C), of a line (make) or of the text (XML). Within
# these limits each of the languages below was measured to stay under a second on the worst of them.
LONGEST_TEXT = 20_000
LONGEST_LINE = 1_000
MOST_LINES = 1_000
LANGUAGES = frozenset(
    """
    bash batch c clojure console cpp csharp css cuda dart diff docker elixir erlang fortran glsl go
    haskell html ini java javascript json julia kotlin latex lua make markdown matlab objective-c
    perl php powershell pycon python r ruby rust scala sql swift toml typescript verilog vhdl xml
    yaml zig
    """.split()
)
MOST_KEPT = 128

_COLOURS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "syntax_comment"),
    (Keyword, "syntax_keyword"),
    (Name.Tag, "syntax_keyword"),
    (Name.Builtin, "syntax_type"),
    (Name.Class, "syntax_type"),
    (Name.Decorator, "syntax_type"),
    (Name.Function, "syntax_name"),
    (Name.Attribute, "syntax_name"),
    (String, "syntax_string"),
    (Number, "syntax_number"),
)
_kept: OrderedDict[bytes, list[list[Span]]] = OrderedDict()


def highlight(code: str, language: str) -> list[list[Span]]:
    """The coloured stretches of each line; empty for a language or a size that is not coloured."""
    lexer = _lexer(language.lower())
    if lexer is None or len(code) > LONGEST_TEXT:
        return []
    lines = code.split("\n")
    if len(lines) > MOST_LINES or max(map(len, lines)) > LONGEST_LINE:
        return []
    key = hashlib.sha256(f"{language}\n{code}".encode()).digest()
    if key not in _kept:
        _kept[key] = _lines(lexer, code)
        if len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]


@lru_cache(maxsize=256)
def _lexer(language: str) -> Lexer | None:
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return lexer if LANGUAGES.intersection(lexer.aliases) else None


def _lines(lexer: Lexer, code: str) -> list[list[Span]]:
    lines: list[list[Span]] = [[]]
    column = 0
    for token, value in lexer.get_tokens(code):
        colour = _colour(token)
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append([])
                column = 0
            length = len(piece.encode("utf-16-le")) // 2
            if colour and length:
                lines[-1].append((column, length, colour))
            column += length
    return lines


@lru_cache(maxsize=512)
def _colour(token: _TokenType) -> str:
    families = set(token.split())
    return next((colour for kind, colour in _COLOURS if kind in families), "")
