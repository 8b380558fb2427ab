"""A block of prose or plain text: read-only, as high as its text; loads nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, QUrl
from PySide6.QtGui import (
    QFontInfo,
    QFontMetrics,
    QImage,
    QResizeEvent,
    QTextCursor,
    QTextDocument,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QTextBrowser, QWidget

from desktop import theme
from desktop.chat.markdown.renderer import CODE_EDGE, is_web_address, style, to_html
from desktop.chat.markdown.text_selection import owner_of, text_selection
from desktop.formulas.formulas import Illustrated, Picture, Source, formulas
from desktop.widgets.pacing import pace
from desktop.widgets.plain import set_tip
from desktop.widgets.plain_text import utf16_length
from desktop.widgets.web_address import hover_words

LONGEST_WORD = 1_000
# A longer text fills its width; a shorter one asks for the width it needs.
SHORT_TEXT = 300
WIDEST = 720
INDENT = 26
# In percent; lines that the user broke stay close together.
LINE_HEIGHT, OWN_LINE_HEIGHT = 145, 100
# Qt's character for a picture.
PICTURE = "\ufffc"
# Qt's characters for the ends of blocks, lines, and the cells of tables.
_ENDS = str.maketrans(dict.fromkeys("\u2029\u2028\ufdd0\ufdd1", "\n"))


class SealedDocument(QTextDocument):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.pictures: dict[str, Picture] = {}

    def loadResource(self, type: int, name: QUrl | str) -> object:
        picture = self.pictures.get(name.toString() if isinstance(name, QUrl) else name)
        if picture is None:
            return nothing(type)
        owner = self.parent()
        density = owner.devicePixelRatioF() if isinstance(owner, QWidget) else 1.0
        return picture.image(theme.colours().text, density)


class BlockText(QTextBrowser):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._wished_width = WIDEST
        self._html = ""  # none for plain text
        self._line_height = LINE_HEIGHT
        self._pending: set[Source] = set()
        # The width of a formula that is wider than the view, and scrolls.
        self._least_width = 0
        document = self._document = SealedDocument(self)
        document.setDocumentMargin(0)
        document.setIndentWidth(INDENT)
        self.setDocument(document)
        text_selection().watch(self)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextBrowserInteraction
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self.setOpenLinks(False)
        self.anchorClicked.connect(self._on_anchor)
        self.highlighted.connect(self._on_hover)
        theme.signals().changed.connect(self._recolour_later)
        formulas().ready.connect(self._on_formulas)

    def show_markdown(self, source: str, keeps_lines: bool = False) -> None:
        """Shows plain text if it is too complex."""
        html = to_html(source, keeps_lines)
        if html is None:
            self.show_plain(source)
            return
        self._prepare(source)
        self._html = html
        self._line_height = OWN_LINE_HEIGHT if keeps_lines else LINE_HEIGHT
        self._recolour()

    def show_plain(self, text: str) -> None:
        self._prepare(text)
        self._html = ""
        self._show(lambda: self.setPlainText(text))

    def _recolour(self) -> bool:
        if self._html:
            self.document().setDefaultStyleSheet(style(theme.colours(), self._line_height))
            self._show(self._fill)
        return False

    def _fill(self) -> None:
        html = self._html
        self._pending, self._least_width, self._document.pictures = set(), 0, {}
        if 'class="math"' in html:
            font = QFontInfo(self.font())
            drawn = Illustrated(html, QFontMetrics(self.font()), font.pixelSize())
            html, self._pending = drawn.html, drawn.pending
            self._document.pictures, self._least_width = drawn.pictures, drawn.least_width
        self.setHtml(html)

    def _on_formulas(self, sources: frozenset[Source]) -> None:
        if not self._pending.isdisjoint(sources):
            self._recolour_later()

    def _show(self, fill: Callable[[], None]) -> None:
        """Keep the selection if the text grew or formulas were drawn."""
        old = self.textCursor()
        selected = (old.anchor(), old.position()) if old.hasSelection() else ()
        drawn = self._drawn_formulas() if selected else []
        written = [at + sum(more for place, more in drawn if place < at) for at in selected]
        fill()
        if written:
            cursor, last = self.textCursor(), self.document().characterCount() - 1
            drawn = self._drawn_formulas()
            anchor, position = (min(_shown(at, drawn), last) for at in written)
            cursor.setPosition(anchor)
            cursor.setPosition(position, QTextCursor.MoveMode.KeepAnchor)
            self.setTextCursor(cursor)
        self._measure()

    def fit(self) -> None:
        # Being told the width it has, a document lays out everything again.
        width = max(self.viewport().width(), self._least_width)
        if self.document().textWidth() != width:
            self.document().setTextWidth(width)
        scrolls = self._least_width > self.viewport().width()
        policy = Qt.ScrollBarPolicy
        self.setHorizontalScrollBarPolicy(
            policy.ScrollBarAlwaysOn if scrolls else policy.ScrollBarAlwaysOff
        )
        bar = self.horizontalScrollBar().sizeHint().height() if scrolls else 0
        self.setFixedHeight(max(1, math.ceil(self.document().size().height()) + bar))
        # While it is being resized itself, a scroll area leaves what it shows as high as it was.
        self.viewport().resize(self.viewport().width(), self.height() - bar)

    def createMimeDataFromSelection(self) -> QMimeData:
        # Text only: Qt's HTML would carry the theme's colours along.
        text = self._selected_text().replace(CODE_EDGE, "").translate(_ENDS)
        data = QMimeData()
        data.setText(text.strip("\n"))
        return data

    def _selected_text(self) -> str:
        """With formulas as they were written."""
        cursor = self.textCursor()
        text = cursor.selectedText()
        drawn = (written for _, written in self._formulas_in(text, cursor.selectionStart()))
        return "".join(chain(*zip_longest(text.split(PICTURE), drawn, fillvalue="")))

    def _drawn_formulas(self) -> list[tuple[int, int]]:
        """The place of each, and how much longer its source is."""
        found = self._formulas_in(self.document().toRawText(), 0)
        return [(place, utf16_length(written) - 1) for place, written in found]

    def _formulas_in(self, text: str, place: int) -> Iterator[tuple[int, str]]:
        """Places and sources of formulas in a text at this place."""
        at = QTextCursor(self.document())
        for piece in text.split(PICTURE)[:-1]:
            place += utf16_length(piece)
            at.setPosition(place + 1)
            picture = self._document.pictures.get(at.charFormat().toImageFormat().name())
            yield place, picture.written if picture else PICTURE
            place += 1

    def _recolour_later(self) -> None:
        pace().go_on(self._recolour)

    def _fit_later(self) -> bool:
        self.fit()
        return False

    def _measure(self) -> None:
        self._wished_width = WIDEST
        if self.document().characterCount() <= SHORT_TEXT:
            self.document().setTextWidth(-1)
            self._wished_width = min(WIDEST, math.ceil(self.document().idealWidth()) + 1)
        self.updateGeometry()
        self.fit()

    def _prepare(self, text: str) -> None:
        # A document lays out its text at once, at its present width and wrap mode.
        if self.document().textWidth() != self.viewport().width():
            self.document().setTextWidth(self.viewport().width())
        # Qt needs quadratic time to find a break in an endless word.
        endless = max(map(len, text.split()), default=0) > LONGEST_WORD
        mode = QTextOption.WrapMode
        wanted = mode.WrapAnywhere if endless else mode.WrapAtWordBoundaryOrAnywhere
        if self.wordWrapMode() != wanted:
            self.setWordWrapMode(wanted)

    def _on_anchor(self, url: QUrl) -> None:
        address = url.toString(QUrl.ComponentFormattingOption.FullyEncoded)
        owner = owner_of(self)
        if owner is not None and is_web_address(address):
            owner.open_link(address)

    def _on_hover(self, url: QUrl) -> None:
        # A link's text can say anything, so show its address.
        set_tip(self, hover_words(url.toString(QUrl.ComponentFormattingOption.FullyEncoded)))

    def loadResource(self, type: int, name: QUrl | str) -> object:
        return nothing(type)

    def sizeHint(self) -> QSize:
        return QSize(self._wished_width, self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(40, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        same_width = self.document().textWidth() == self.viewport().width()
        if not same_width and self.visibleRegion().isEmpty():
            # The invisible part of a long chat is laid out when there is time.
            pace().go_on(self._fit_later)
            return
        super().resizeEvent(event)
        if not same_width:
            self.fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        sideways = event.angleDelta().x() or event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if self._least_width > self.viewport().width() and sideways:
            super().wheelEvent(event)
        else:
            event.ignore()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._measure()


def _shown(place: int, drawn: Sequence[tuple[int, int]]) -> int:
    """The place in the document of a place in the source."""
    for formula, more in drawn:
        if place <= formula:
            break
        place = max(formula + 1, place - more)
    return place


def nothing(kind: int) -> object:
    """Qt would open a file for a null picture or no value."""
    if kind != QTextDocument.ResourceType.ImageResource.value:
        return b""
    pixel = QImage(1, 1, QImage.Format.Format_ARGB32)
    pixel.fill(Qt.GlobalColor.transparent)
    return pixel
