"""Documents of a draft or message, one line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from desktop import theme
from desktop.documents.parts import estimated_tokens, has_text
from desktop.i18n import tr
from desktop.numbers import BETWEEN, count_of, format_count, format_seconds
from desktop.pictures.draft import DraftDocument
from desktop.store.tables.records import Document
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import Frame, ScrollArea, column, row
from desktop.widgets.plain import ElidedLabel, ToolButton, action, named, set_tip
from desktop.widgets.plain_text import shortened

LONGEST_NAME = 40
MOST_SEEN = 3
SPACING = 4


class DocumentChip(Frame):
    """`pages_asked(keeps text)`: add the pages as pictures; `text_asked`: put the text into the
    field."""

    opened = Signal()
    text_asked = Signal()
    removed = Signal()
    pages_asked = Signal(bool)

    def __init__(self, name: str, removable: bool) -> None:
        super().__init__("documentChip")
        self._name, self._removable = name, removable
        self._face = named(ToolButton(), "documentOpen")
        self._face.setProperty("class", "chip")
        self._face.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._face.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._face.setCursor(Qt.CursorShape.PointingHandCursor)
        self._face.set_words(shortened(name, LONGEST_NAME))
        self._face.clicked.connect(self.opened)
        self._caption = ElidedLabel(name="documentCaption", style="muted small")
        self._more = IconButton("more", tr("Text, pictures or both"), name="documentMore")
        self._more.clicked.connect(self._open_menu)
        self._more.hide()
        tip = tr("Put it into the message as plain text")
        self.as_text = IconButton("edit", tip, name="documentAsText")
        self.as_text.clicked.connect(self.text_asked)
        self.as_text.hide()
        remove = IconButton("close", tr("Remove this document"), name="documentRemove", pixels=12)
        remove.clicked.connect(self.removed)
        if not removable:
            remove.hide()
        parts = (self._face, (self._caption, 1), self._more, self.as_text, remove)
        row(*parts, of=self, margins=(4, 2, 4, 2), spacing=4)
        self.setFocusProxy(self._face)
        theme.signals().changed.connect(self._draw)
        self._draw()

    def say(self, caption: str, is_warning: bool = False, offers_pages: bool = False) -> None:
        self._caption.set_words(caption)
        theme.set_class(self._caption, "warning small" if is_warning else "muted small")
        self._more.setVisible(offers_pages)
        spoken = tr("Document {name}, {caption}").format(name=self._name, caption=caption)
        self._face.setAccessibleName(spoken)
        tip = tr("Choose what the model reads") if self._removable else tr("Show the text")
        set_tip(self._face, f"{self._name}\n{tip}")

    def sizeHint(self) -> QSize:
        size = super().sizeHint()
        return QSize(size.width() + self._caption.sizeHint().width() // 8, size.height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._removable and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.removed.emit()
        else:
            super().keyPressEvent(event)

    def _draw(self) -> None:
        self._face.setIconSize(theme.icon_size(16))
        self._face.setIcon(theme.icon("document"))

    def _open_menu(self) -> None:
        menu = QMenu(self)
        menu.setObjectName("documentMenu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(action(tr("Choose pages…"), menu, self.opened.emit))
        pictures, both = tr("Read the pages as pictures"), tr("Read text and pictures")
        menu.addAction(action(pictures, menu, lambda: self.pages_asked.emit(False)))
        menu.addAction(action(both, menu, lambda: self.pages_asked.emit(True)))
        menu.popup(self._more.mapToGlobal(QPoint(0, self._more.height())))


class DocumentStrip(ScrollArea):
    """An int is a document's number or place."""

    open_asked = Signal(int)
    remove_asked = Signal(int)
    text_asked = Signal(int)
    pages_asked = Signal(int, bool)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        content = QWidget()
        self._column = column(None, of=content, spacing=SPACING)
        self.setWidget(content)
        self._chips: dict[int, DocumentChip] = {}
        theme.signals().changed.connect(self._fit)
        self.hide()

    def chips(self) -> list[DocumentChip]:
        return list(self._chips.values())

    def show_documents(self, documents: Sequence[Document]) -> None:
        self._keep(())
        for place, document in enumerate(documents):
            self._chip(place, document.name, False).say(caption_of(document))
        self._fit()

    def show_draft(
        self,
        documents: Sequence[DraftDocument],
        seconds: Callable[[Document], float | None],
        room: int | None,
    ) -> None:
        """`seconds` tells how long reading one takes; those over `room` tokens are marked."""
        self._keep([each.number for each in documents])
        for each in documents:
            chip = self._chip(each.number, each.name, True)
            document = each.document
            if document is None:
                chip.say(each.progress)
                continue
            is_long = room is not None and estimated_tokens(document) > room
            caption = caption_of(document, seconds(document))
            if is_long:
                caption = tr("{caption}: more than fits, choose parts").format(caption=caption)
            offers = document.paged and each.path is not None
            chip.say(caption, is_long or not has_text(document), offers)
            # Only a text without a file.
            chip.as_text.setVisible(not document.paged and not document.source)
        self._fit()

    def _keep(self, numbers: Sequence[int]) -> None:
        for number in [each for each in self._chips if each not in numbers]:
            chip = self._chips.pop(number)
            self._column.removeWidget(chip)
            chip.hide()
            chip.deleteLater()

    def _chip(self, number: int, name: str, removable: bool) -> DocumentChip:
        if number not in self._chips:
            chip = self._chips[number] = DocumentChip(name, removable)
            chip.opened.connect(lambda: self.open_asked.emit(number))
            chip.removed.connect(lambda: self.remove_asked.emit(number))
            chip.text_asked.connect(lambda: self.text_asked.emit(number))
            chip.pages_asked.connect(lambda keeps: self.pages_asked.emit(number, keeps))
            self._column.insertWidget(len(self._chips) - 1, chip)
        return self._chips[number]

    def wished_width(self) -> int:
        return max((chip.sizeHint().width() for chip in self._chips.values()), default=0)

    def _fit(self) -> None:
        chips = self.chips()
        self.setVisible(bool(chips))
        if chips:
            heights = [chip.sizeHint().height() + SPACING for chip in chips]
            self.setFixedHeight(sum(heights[:MOST_SEEN]))


def caption_of(document: Document, seconds: float | None = None) -> str:
    """200 pages · 61,204 tokens · about 40 s to read"""
    count = count_of(len(document.parts), "page" if document.paged else "section")
    if document.chosen is not None:
        chosen = format_count(len(document.chosen))
        count = tr("{chosen} of {count}").format(chosen=chosen, count=count)
    if not has_text(document):
        return BETWEEN.join((count, tr("no text: use its pages as pictures")))
    tokens = count_of(estimated_tokens(document), "token")
    if document.tokens is None:
        tokens = tr("about {tokens}").format(tokens=tokens)
    said = [count, tokens] if document.paged or len(document.parts) > 1 else [tokens]
    if seconds is not None:
        said.append(tr("about {time} to read").format(time=format_seconds(max(seconds, 0.01))))
    return BETWEEN.join(said)
