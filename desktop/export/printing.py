"""Chats on paper and as PDF, with pictures and formulas.

Other processes decode pictures and draw formulas. A thread paints the pages: long chats take
seconds.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from html import escape
from math import isqrt

from PySide6.QtCore import QBuffer, QEventLoop, QIODevice, Qt, QUrl
from PySide6.QtGui import (
    QFont,
    QFontDatabase,
    QFontInfo,
    QFontMetrics,
    QGuiApplication,
    QImage,
    QPagedPaintDevice,
    QPdfWriter,
    QTextDocument,
)

from core.api.archive import ArchivedChat, ArchivedPicture
from core.api.errors import WaymarkError
from desktop.chat.markdown.block_text import nothing
from desktop.chat.markdown.blocks import Block
from desktop.chat.markdown.renderer import CODE_EDGE, to_html
from desktop.chat.markdown.stream import BlockStream
from desktop.export.writing import author, date, in_thread, shown_messages
from desktop.formulas.formulas import SCHEME, Illustrated, formulas
from desktop.i18n import tr
from desktop.pictures.pictures import PictureController
from desktop.store.tables.records import Picture

# Of all pictures and formulas together: 256 MB. Formulas beyond it stay as written.
MOST_PIXELS = 2**26
# Of one picture: more than a page shows.
LONGEST_EDGE, SHORTEST_EDGE = 1_200, 64
# On the page, whose text is about 640 wide, in pixels of 1/96 inch.
WIDEST, WIDEST_FORMULA = 400, 620
# Pixels of a formula for each on the page.
DENSITY = 3.0
POINTS = 10.0
INDENT = 20
_FORMULA = re.compile(rf'"({SCHEME}\d+)" width="(\d+)" height="(\d+)"')


class PrintedDocument(QTextDocument):
    """Loads nothing but the images it was given."""

    def __init__(self, images: dict[str, QImage]) -> None:
        super().__init__()
        self._images = images

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        found = self._images.get(name.toString() if isinstance(name, QUrl) else name)
        return found if found is not None else nothing(kind)


class Printout:
    """`add` chats in the window's thread, then `paint` in any. `missing` counts unreadable
    pictures."""

    def __init__(self, pictures: PictureController) -> None:
        self.missing = 0
        self._pictures = pictures
        self._html: list[str] = []
        self._images: dict[str, QImage] = {}
        self._room = MOST_PIXELS
        self._font = QFont(QGuiApplication.font().family())
        self._font.setPointSizeF(POINTS)

    async def add(self, chat: ArchivedChat) -> None:
        messages = list(shown_messages(chat))
        count = sum(len(each.pictures) for each in messages)
        edge = min(LONGEST_EDGE, isqrt(self._room // (2 * max(count, 1))))
        self._html.append(f'<p class="title">{escape(chat.title)}</p><p>{date(chat.created)}</p>')
        if chat.system:
            self._html.append(_head(tr("Instructions")) + _plain(chat.system))
        for message in messages:
            self._html.append(_head(author(message)))
            for document in message.documents:
                self._html.append(f"<p>{tr('Document')}: {escape(document.name)}</p>")
            for picture in message.pictures:
                self._html.append(await self._picture(picture, edge))
            blocks = partial(_blocks, message.text, message.reply is None)
            for html, depth in await in_thread(blocks):
                drawn = await self._illustrated(html)
                self._html.append(f'<div style="margin-left: {INDENT * depth}px">{drawn}</div>')

    def paint(self, device: QPagedPaintDevice) -> None:
        # A layout starts timers, which only threads with an event dispatcher have.
        dispatcher = QEventLoop()
        document = PrintedDocument(self._images)
        document.setDefaultFont(self._font)
        document.setDefaultStyleSheet(_style())
        document.setHtml("".join(self._html))
        document.print_(device)
        del document, dispatcher

    def pdf(self, title: str) -> bytes:
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        writer = QPdfWriter(buffer)
        writer.setTitle(title)
        writer.setCreator("Waymark")
        self.paint(writer)
        return bytes(buffer.data().data())

    async def _picture(self, picture: ArchivedPicture, edge: int) -> str:
        image = QImage()
        if edge >= SHORTEST_EDGE:
            image = await rendered(self._pictures, picture, edge)
        if image.isNull():
            self.missing += 1
            return f"<p>{tr('Picture')}: {escape(picture.name)}</p>"
        fitted = image.size().boundedTo(
            image.size().scaled(WIDEST, WIDEST, Qt.AspectRatioMode.KeepAspectRatio)
        )
        name = self._keep(f"picture:{len(self._images)}", image)
        size = f'width="{fitted.width()}" height="{fitted.height()}"'
        return f'<p><img src="{name}" {size}></p>'

    async def _illustrated(self, html: str) -> str:
        """Replace formulas by drawings."""
        if 'class="math"' not in html or self._room <= 0:
            return html
        pixels, metrics = QFontInfo(self._font).pixelSize(), QFontMetrics(self._font)
        while (drawn := Illustrated(html, metrics, pixels)).pending:
            await _next_drawings()
        # Each block counts its formulas from 0.
        ending = f".{len(self._images)}"
        for name, picture in drawn.pictures.items():
            self._keep(name + ending, picture.image("#000000", DENSITY))
        return _FORMULA.sub(partial(_fitted, ending), drawn.html)

    def _keep(self, name: str, image: QImage) -> str:
        self._images[name] = image
        self._room -= image.width() * image.height()
        return name


async def rendered(pictures: PictureController, picture: ArchivedPicture, edge: int) -> QImage:
    """Empty if it can't be read."""
    try:
        return await pictures.render(Picture(picture.digest, picture.name, (0, 0)), edge, edge)
    except WaymarkError:
        return QImage()


def _blocks(text: str, keeps_lines: bool) -> list[tuple[str, int]]:
    """Each block's HTML, and its depth in lists."""
    stream = BlockStream()
    stream.append(text, more=True)
    stream.finish()
    return [(_html(each, keeps_lines), each.depth) for each in stream.closed]


def _html(block: Block, keeps_lines: bool) -> str:
    prose = to_html(block.source, keeps_lines) if block.kind == "prose" else None
    return prose.replace(CODE_EDGE, "") if prose is not None else _plain(block.source)


def _head(words: str) -> str:
    return f'<p class="head">{escape(words)}</p>'


def _fitted(ending: str, found: re.Match[str]) -> str:
    width, height = int(found[2]), int(found[3])
    scale = min(1.0, WIDEST_FORMULA / width)
    return f'"{found[1]}{ending}" width="{width * scale:.0f}" height="{height * scale:.0f}"'


def _plain(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _style() -> str:
    fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    return f"""
        p, ul, ol, table {{ margin-top: 0px; margin-bottom: 6px; }}
        p.title {{ font-size: 16pt; font-weight: 600; }}
        p.head {{ font-weight: 600; color: #5c6662; margin-top: 16px; margin-bottom: 4px; }}
        code, pre {{ font-family: '{fixed}'; font-size: 9pt; }}
        pre {{ white-space: pre-wrap; margin-bottom: 6px; background-color: #f4f5f3; }}
        a {{ color: #1d4f91; }}
        table.cells {{ border-color: #b9bfbc; border-style: solid; border-collapse: collapse; }}
        td.quote {{ border-left: 3px solid #b9bfbc; padding-left: 12px; color: #5c6662; }}
    """


async def _next_drawings() -> None:
    came = asyncio.Event()
    link = formulas().ready.connect(lambda _: came.set())
    try:
        await came.wait()
    finally:
        formulas().ready.disconnect(link)
