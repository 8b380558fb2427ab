"""Markdown blocks as HTML for Qt's text documents.

Nothing a model writes loads anything: pictures become alt text and address, only http and https
addresses become links, and HTML is text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from html import escape
from unicodedata import bidirectional
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFontDatabase

from desktop.chat.markdown.blocks import MOST_CELLS
from desktop.chat.markdown.parser import make_parser
from desktop.theme import Colours, px

# A block beyond these limits is shown as plain text. Each mark may change the font, which costs ten
# times as much as a plain word; the parser needs quadratic time for brackets; and Qt needs as long
# for a cell as for a hundred letters, inside a quote four times that.
MOST_MARKS = 2_000
MOST_BRACKETS = 300
MOST_CELLS_IN_QUOTES = 32
# A script is known by them.
FIRST_LETTERS = 200
# Deeper nesting leaves no room for text, and the parser drops what is deeper than 20.
DEEPEST = 16

# A space at both edges of inline code, between two invisible characters: a sequence that doesn't
# occur in text, so that it can be removed from what is copied.
CODE_EDGE = "\u2063\u00a0\u2063"

_MARK = re.compile(r"[*_~`<&\\!\[$]")
# A bare address, without the punctuation that ends a sentence.
_WEB_ADDRESS = re.compile(r"(https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}*])")


def _image(token: Token, env: EnvType) -> str:
    alt = RendererHTML().renderInlineAsText(token.children or [], _PARSER.options, env)
    return f"<i>{escape(alt or 'picture')}</i> ({escape(str(token.attrGet('src') or ''))})"


def _text(token: Token, env: EnvType) -> str:
    if env.get("links"):
        return escape(token.content)
    return "".join(_linked(piece) for piece in _WEB_ADDRESS.split(token.content))


def _link_open(token: Token, env: EnvType) -> str:
    address = str(token.attrGet("href") or "")
    env["links"] = [*env.get("links", []), address]
    return f'<a href="{escape(address)}">' if is_web_address(address) else ""


def _link_close(_token: Token, env: EnvType) -> str:
    address = env["links"].pop()
    return "</a>" if is_web_address(address) else f" ({escape(address)})"


def _code(token: Token, _env: EnvType) -> str:
    return f"<pre>{escape(token.content.removesuffix(chr(10)))}</pre>"


def _code_inline(token: Token, _env: EnvType) -> str:
    return f"<code>{CODE_EDGE}{escape(token.content)}{CODE_EDGE}</code>"


def _quote_open(_token: Token, env: EnvType) -> str:
    env["quotes"] = env.get("quotes", 0) + 1
    # Each table inside a table takes Qt four times as long.
    if env["quotes"] > 1:
        return "<blockquote>"
    # Qt draws a line at the side of table cells only.
    kind = "quote to-left" if env["reads_to_left"] else "quote"
    return f'<table cellspacing="0" cellpadding="0" width="100%"><tr><td class="{kind}">'


def _quote_close(_token: Token, env: EnvType) -> str:
    env["quotes"] -= 1
    return "</blockquote>" if env["quotes"] else "</td></tr></table>"


def _math(token: Token, _env: EnvType) -> str:
    lines = escape(token.content).split("\n")
    return f'<span class="math">{"<br>".join(lines)}</span>'


_Rule = Callable[[Token, EnvType], str]
# Elements that Qt draws differently, or that must not reach it.
_RULES: dict[str, _Rule] = {
    "image": _image,
    "text": _text,
    "link_open": _link_open,
    "link_close": _link_close,
    "fence": _code,
    "code_block": _code,
    "code_inline": _code_inline,
    "table_open": lambda _token, _env: (
        '<table class="cells" cellspacing="0" cellpadding="6" border="1">'
    ),
    "blockquote_open": _quote_open,
    "blockquote_close": _quote_close,
    "math": _math,
    "footnote_ref": lambda token, _env: f"<sup>{token.content}</sup>",
    "footnote_open": lambda token, _env: f'<p class="footnote"><sup>{token.info}</sup> ',
    "softbreak": lambda _token, env: "<br>\n" if env.get("keeps_lines") else "\n",
    "hr": lambda _token, _env: "<hr>",
}


def _make_parser() -> MarkdownIt:
    parser = make_parser()
    for name, rule in _RULES.items():
        parser.add_render_rule(name, _with_index(rule))
    # Anything but a web address becomes text in the renderer, so that nothing is left out.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser


def _with_index(rule: _Rule) -> Callable[..., str]:
    return lambda _self, tokens, at, _options, env: rule(tokens[at], env)


_PARSER = _make_parser()


def is_web_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    # A link that Qt can't parse would silently do nothing.
    return parts.scheme in ("http", "https") and bool(parts.netloc) and QUrl(address).isValid()


def to_html(source: str, keeps_lines: bool = False) -> str | None:
    """None if it is too complex. `keeps_lines`: keep soft line breaks."""
    if source.count("[") > MOST_BRACKETS or len(_MARK.findall(source)) > MOST_MARKS:
        return None
    env: EnvType = {"keeps_lines": keeps_lines, "reads_to_left": reads_to_left(source)}
    tokens = _PARSER.parse(source, env)
    kinds = Counter(token.type for token in tokens)
    cells = kinds["td_open"] + kinds["th_open"]
    deepest = max((token.level for token in tokens), default=0)
    most_cells = MOST_CELLS_IN_QUOTES if kinds["blockquote_open"] else MOST_CELLS
    if cells > most_cells or deepest > DEEPEST:
        return None
    html = str(_PARSER.renderer.render(tokens, _PARSER.options, env)).strip()
    # Qt draws no bullet for an empty item.
    return html.replace("<li></li>", f"<li>{CODE_EDGE}</li>")


def reads_to_left(text: str) -> bool:
    """Judged by the script of its first letter."""
    kinds = (bidirectional(letter) for letter in text[:FIRST_LETTERS])
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"


def style(colours: Colours, line_height: int) -> str:
    """`line_height` is in percent."""
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
        td.to-left {{
            border-left: none; padding-left: 0px; border-right: 3px solid {colours.border_strong};
            padding-right: 12px;
        }}
        th {{ font-weight: 600; background-color: {colours.code_background}; }}
    """


def _linked(words: str) -> str:
    shown = escape(words)
    is_address = _WEB_ADDRESS.fullmatch(words) and is_web_address(words)
    return f'<a href="{shown}">{shown}</a>' if is_address else shown
