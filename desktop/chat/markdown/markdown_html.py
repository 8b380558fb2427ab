"""Turns one Markdown block into the small HTML that Qt's text documents understand.

Knows how each element looks and that nothing a model writes may load anything: a picture becomes
its alt text with the address as plain words, and only http and https addresses become links. HTML
in the text is text. Leaves splitting to markdown_source and drawing to BlockText.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFontDatabase

from desktop.chat.markdown.markdown_blocks import MOST_CELLS, make_parser
from desktop.theme import Colours, px

# A block of more than these is shown as the text it is. Each mark may be a word in other letters,
# which costs the parser and Qt ten times as much as one in the same; looking for the other end of a
# bracket takes the parser time with their square; and Qt lays out a cell in the time of a hundred
# letters, and in a quote's cell four times over.
MOST_MARKS = 2_000
MOST_BRACKETS = 300
MOST_CELLS_IN_QUOTES = 32
# Deeper quotes and lists leave no room for words, and the parser drops what is deeper than 20.
DEEPEST = 16

# A space at both edges of inline code, between two characters that are not seen: in this order
# nobody has written them, so that what is copied can do without.
CODE_EDGE = "\u2063\u00a0\u2063"

_MARK = re.compile(r"[*_~`<&\\!\[$]")
# An address that stands in the text as it is; what ends a sentence is not part of it.
_WEB_ADDRESS = re.compile(r"(https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}*])")


class _Renderer(RendererHTML):
    """HTML for the elements that Qt draws differently, or that must not reach it."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        alt = self.renderInlineAsText(token.children or [], options, env)
        address = str(token.attrGet("src") or "")
        return f"<i>{escape(alt or 'picture')}</i> ({escape(address)})"

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        words = tokens[idx].content
        if env.get("links"):
            return escape(words)
        return "".join(_linked(piece) for piece in _WEB_ADDRESS.split(words))

    def link_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        address = str(tokens[idx].attrGet("href") or "")
        env["links"] = [*env.get("links", []), address]
        return f'<a href="{escape(address)}">' if is_web_address(address) else ""

    def link_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        address = env["links"].pop()
        return "</a>" if is_web_address(address) else f" ({escape(address)})"

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _listing(tokens[idx].content)

    def code_block(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return _listing(tokens[idx].content)

    def code_inline(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return f"<code>{CODE_EDGE}{escape(tokens[idx].content)}{CODE_EDGE}</code>"

    def table_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return '<table class="cells" cellspacing="0" cellpadding="6" border="1">'

    def blockquote_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        env["quotes"] = env.get("quotes", 0) + 1
        # Each table inside a table takes Qt four times as long.
        if env["quotes"] > 1:
            return "<blockquote>"
        # Qt draws a line beside a table's cell, and beside nothing else.
        return '<table cellspacing="0" cellpadding="0" width="100%"><tr><td class="quote">'

    def blockquote_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        env["quotes"] -= 1
        return "</blockquote>" if env["quotes"] else "</td></tr></table>"

    def math(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        lines = escape(tokens[idx].content).split("\n")
        return f'<span class="math">{"<br>".join(lines)}</span>'

    def footnote_ref(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return f"<sup>{tokens[idx].content}</sup>"

    def footnote_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return f'<p class="footnote"><sup>{tokens[idx].info}</sup> '

    def softbreak(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return "<br>\n" if env.get("keeps_lines") else "\n"

    def hr(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "<hr>"


def _make_parser() -> MarkdownIt:
    parser = make_parser()
    parser.renderer = _Renderer(parser)
    # What is not a web address becomes words in the renderer, never a link: nothing is left out.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser


_PARSER = _make_parser()


def is_web_address(address: str) -> bool:
    """Whether an address may be offered to the user's browser."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    # What Qt can't read would be a link that does nothing, and says nothing of it.
    return parts.scheme in ("http", "https") and bool(parts.netloc) and QUrl(address).isValid()


def to_html(source: str, keeps_lines: bool = False) -> str | None:
    """The block as HTML, or None where it is better shown as the text it is.

    With `keeps_lines` a line of the source is a line on the screen.
    """
    if source.count("[") > MOST_BRACKETS or len(_MARK.findall(source)) > MOST_MARKS:
        return None
    env: EnvType = {"keeps_lines": keeps_lines}
    tokens = _PARSER.parse(source, env)
    kinds = Counter(token.type for token in tokens)
    cells = kinds["td_open"] + kinds["th_open"]
    deepest = max((token.level for token in tokens), default=0)
    most_cells = MOST_CELLS_IN_QUOTES if kinds["blockquote_open"] else MOST_CELLS
    if cells > most_cells or deepest > DEEPEST:
        return None
    html = str(_PARSER.renderer.render(tokens, _PARSER.options, env)).strip()
    # Qt draws no mark beside an item without words.
    return html.replace("<li></li>", f"<li>{CODE_EDGE}</li>")


def style(colours: Colours, line_height: int) -> str:
    """The style sheet of a block's document; `line_height` is in percent."""
    fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    return f"""
        p, li {{ line-height: {line_height}%; }}
        p, ul, ol, table, pre, h1, h2, h3, h4, h5, h6 {{ margin-top: 0px; margin-bottom: 4px; }}
        li {{ margin-top: 2px; margin-bottom: 2px; }}
        h1 {{ font-size: {px(20)}px; }} h2 {{ font-size: {px(18)}px; }}
        h3 {{ font-size: {px(16)}px; }} h4, h5, h6 {{ font-size: {px(15)}px; }}
        h1, h2, h3, h4, h5, h6 {{ font-weight: 600; }}
        span.math {{ white-space: pre-wrap; }}
        p.footnote {{ color: {colours.muted}; }}
        a {{ color: {colours.link}; text-decoration: underline; }}
        code, pre {{ font-family: '{fixed}'; background-color: {colours.code_background}; }}
        table.cells {{
            border-color: {colours.border}; border-style: solid; border-collapse: collapse;
        }}
        blockquote {{ margin: 0px 0px 0px 14px; }}
        td.quote {{
            border-left: 3px solid {colours.border_strong}; padding-left: 12px;
            color: {colours.muted};
        }}
        th {{ font-weight: 600; background-color: {colours.code_background}; }}
    """


def _linked(words: str) -> str:
    shown = escape(words)
    is_address = _WEB_ADDRESS.fullmatch(words) and is_web_address(words)
    return f'<a href="{shown}">{shown}</a>' if is_address else shown


def _listing(code: str) -> str:
    return f"<pre>{escape(code.removesuffix(chr(10)))}</pre>"
