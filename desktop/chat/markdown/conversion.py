"""Markdown as HTML and plain text, for the clipboard and exports."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from PySide6.QtCore import QMimeData
from PySide6.QtGui import QGuiApplication

from desktop.chat.markdown.parser import FOOTNOTE_REF, MATH, make_parser


def html_parser() -> MarkdownIt:
    """Its HTML fetches nothing, and has formulas as written."""
    # A picture that a text names would be fetched.
    parser = make_parser().disable("image")
    for kind in (MATH, FOOTNOTE_REF):
        parser.add_render_rule(kind, _as_written)
    return parser


def plain_text(text: str) -> str:
    """Lists keep their marks; tabs separate the cells of tables."""
    written: list[str] = []
    # The next number of each list around the token, None for bullets.
    lists: list[int | None] = []
    mark = ""
    for token in make_parser().parse(text):
        match token.type:
            case "bullet_list_open":
                lists.append(None)
            case "ordered_list_open":
                lists.append(int(token.attrGet("start") or 1))
            case "bullet_list_close" | "ordered_list_close":
                lists.pop()
                written.append("" if lists else "\n")
            case "list_item_open":
                number = lists[-1]
                mark = "  " * (len(lists) - 1) + ("- " if number is None else f"{number}. ")
                lists[-1] = None if number is None else number + 1
            case "inline":
                written.append(mark + _inline(token.children or ()))
                mark = ""
            case "fence" | "code_block" | "math_block":
                written.append(f"{mark}{token.content.rstrip()}\n\n")
                mark = ""
            case "th_close" | "td_close":
                written.append("\t")
            case "tr_close":
                written[-1] = "\n"
            case "table_close":
                written.append("\n")
            case "paragraph_close" if lists:
                written.append("\n")
            case "paragraph_close" | "heading_close":
                written.append("\n\n")
    return "".join(written).strip()


async def copy(text: str, rich: bool) -> None:
    """To the clipboard, as plain text and if `rich` also as HTML."""
    # Parsing a long text takes longer than the window may wait.
    run = asyncio.get_running_loop().run_in_executor
    data = QMimeData()
    data.setText(await run(None, plain_text, text))
    if rich:
        data.setHtml(await run(None, html_parser().render, text))
    QGuiApplication.clipboard().setMimeData(data)


def _inline(tokens: Sequence[Token]) -> str:
    breaks = {"softbreak": "\n", "hardbreak": "\n"}
    return "".join(breaks.get(token.type, token.content) for token in tokens)


def _as_written(
    _renderer: object, tokens: Sequence[Token], at: int, _options: object, _env: object
) -> str:
    return html.escape(tokens[at].content)
