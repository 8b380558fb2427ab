"""Syntax colours by Pygments, in short steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

from desktop.threads import DaemonExecutor
from desktop.widgets.plain_text import utf16_length

# Where in a line (in UTF-16 units, as Qt counts), how long, and the name of a colour.
Span = tuple[int, int, str]

# Some lexers need quadratic time: in blank lines (C), a line (make) or the text (XML). Within these
# limits the worst text of each language below was measured to take at most 15 ms for one token, and
# nearly always less than a second in all.
LONGEST_TEXT = 20_000
LONGEST_LINE = 1_000
MOST_LINES = 400
# More take Qt too long to draw.
MOST_SPANS = 4_000
PATIENCE_S = 2.0
LANGUAGES = frozenset(
    """
    bash batch c clojure console cpp csharp css cuda dart diff docker elixir erlang fortran glsl go
    haskell html ini java javascript json julia kotlin latex lua make markdown matlab objective-c
    perl php powershell pycon python r ruby rust scala sql swift toml typescript verilog vhdl xml
    yaml zig
    """.split()
)

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

_LOADER = DaemonExecutor("lexers", 1)


class Highlighting:
    def __init__(self, code: str, language: str) -> None:
        self.spans: list[list[Span]] = []
        lexer = _lexer(language.lower())
        self._work = self._lines(lexer, code) if lexer and _is_small(code) else iter(())
        self._taken = 0.0

    def go_on(self, seconds: float) -> bool:
        """Returns whether anything is left to do."""
        begun = time.thread_time()
        for _ in self._work:
            taken = time.thread_time() - begun
            if self._taken + taken > PATIENCE_S:
                break
            if taken >= seconds:
                self._taken += taken
                return True
        return False

    def _lines(self, lexer: Lexer, code: str) -> Iterator[None]:
        lines: list[list[Span]] = [[]]
        column = count = 0
        for token, value in lexer.get_tokens(code):
            yield
            colour = _colour(token)
            for number, piece in enumerate(value.split("\n")):
                if number:
                    lines.append([])
                    column = 0
                length = utf16_length(piece)
                if colour and length:
                    lines[-1].append((column, length, colour))
                    count += 1
                column += length
            if count > MOST_SPANS:
                return
        self.spans = lines


def _is_small(code: str) -> bool:
    lines = code.split("\n") if len(code) <= LONGEST_TEXT else []
    return 0 < len(lines) <= MOST_LINES and max(map(len, lines)) <= LONGEST_LINE


def is_loaded(language: str) -> bool:
    """False while a thread loads the lexer, which takes up to 100 ms."""
    return _loading(language.lower()).done()


@lru_cache(maxsize=256)
def _loading(language: str) -> Future[Lexer | None]:
    return _LOADER.submit(_lexer, language)


@lru_cache(maxsize=256)
def _lexer(language: str) -> Lexer | None:
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return lexer if LANGUAGES.intersection(lexer.aliases) else None


@lru_cache(maxsize=512)
def _colour(token: _TokenType) -> str:
    families = set(token.split())
    return next((colour for kind, colour in _COLOURS if kind in families), "")
