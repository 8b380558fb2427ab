"""The fields messages are written in: the composer's, and the editor of a sent message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from desktop.i18n import tr
from desktop.pictures.draft import Draft
from desktop.pictures.given_data import FILE_TYPES, accept_copy, may_take, take_data
from desktop.pictures.picture_files import Refusal, not_added
from desktop.pictures.picture_strip import PictureStrip
from desktop.pictures.pictures import PictureController
from desktop.widgets.icon_button import IconButton
from desktop.widgets.long_text import LongText
from desktop.widgets.plain import Button, Label

MOST_LINES_SEEN = 8


class ComposerText(LongText):
    """A text field that grows with its lines up to a limit; Enter sends, Shift+Enter breaks.

    `data_given(QMimeData)`: pictures or files were pasted.
    """

    send_asked = Signal()
    left = Signal()
    data_given = Signal(object)

    def __init__(self, can_be_left: bool = False) -> None:
        super().__init__()
        self._can_be_left = can_be_left
        self.setObjectName("composerText")
        self.setAccessibleName(tr("Message"))
        self._placeholder = tr("Ask, or drop a picture")
        self.setPlaceholderText(self._placeholder)
        self.setTabChangesFocus(True)
        # The column around it takes drops.
        self.setAcceptDrops(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self.verticalScrollBar().rangeChanged.connect(self._fit)

    def event(self, event: QEvent) -> bool:
        # Else the window's own Esc, which stops a reply, would have it.
        if self._can_be_left and event.type() == QEvent.Type.ShortcutOverride:
            assert isinstance(event, QKeyEvent)
            if event.key() == Qt.Key.Key_Escape:
                event.accept()
                return True
        return super().event(event)

    def _lines(self) -> int:
        # A plain document's height is counted in lines.
        return max(1, int(self.document().size().height()))

    def _fit(self) -> None:
        """Grow with the text, without scrolling while all of it is visible."""
        self.updateGeometry()
        bar = self.verticalScrollBar()
        # Qt scrolls to the cursor before the field has grown, and counts one line too few.
        if self._lines() <= MOST_LINES_SEEN and bar.maximum() > 0:
            bar.setRange(0, 0)

    def sizeHint(self) -> QSize:
        shown = min(self._lines(), MOST_LINES_SEEN)
        margins = 2 * (int(self.document().documentMargin()) + self.frameWidth()) + 2
        return QSize(super().sizeHint().width(), shown * self.fontMetrics().lineSpacing() + margins)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.sizeHint().height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        breaks = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if enter and not breaks:
            self.send_asked.emit()
            event.accept()
            return
        if self._can_be_left and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
            event.accept()
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        room = self.viewport().width() - 2 * int(self.document().documentMargin())
        elided = self.fontMetrics().elidedText(self._placeholder, Qt.TextElideMode.ElideRight, room)
        self.setPlaceholderText(elided)
        self._fit()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return has_files(source) or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        if has_files(source):
            self.data_given.emit(source)
        else:
            super().insertFromMimeData(source)


def has_files(data: QMimeData) -> bool:
    """Whether this is a picture or files rather than text; a copied web address is text."""
    # Pictures copied by this process have an encoded form only.
    pictured = data.hasImage() or any(map(data.hasFormat, FILE_TYPES))
    return pictured or any(url.isLocalFile() for url in data.urls())


class MessageEditor(QWidget):
    """Edits the draft that replaces a sent message. `filled()`: its size has changed."""

    send_asked = Signal(str)
    left = Signal()
    open_picture_asked = Signal(str)
    choose_pictures_asked = Signal(object)
    filled = Signal()

    def __init__(self, draft: Draft, pictures: PictureController) -> None:
        super().__init__()
        self._draft = draft
        self._pictures = pictures
        self._refusals: list[Refusal] = []
        self.strip = PictureStrip()
        self.strip.setObjectName("editPictures")
        self.text = ComposerText(can_be_left=True)
        self.text.setObjectName("editText")
        self.text.setAccessibleName(tr("Edit your message"))
        self.text.setProperty("class", "field")
        self.text.setPlainText(draft.text)
        self._notice = Label(name="editNotice", style="warning small", wraps=True)
        self._notice.hide()
        self._add = IconButton("picture", tr("Add pictures"), name="editAddPictures")
        cancel, send = tr("Cancel"), tr("Send again")
        self._cancel = Button(cancel, name="editCancel", spoken=cancel)
        self._send = Button(send, name="editSend", style="primary", spoken=send)
        self.setAcceptDrops(True)
        self._build()
        self._connect()
        self._on_pictures(draft)

    def _build(self) -> None:
        row = QHBoxLayout()
        row.addWidget(self._add)
        row.addStretch(1)
        row.addWidget(self._cancel)
        row.addWidget(self._send)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for part in (self.strip, self.text, self._notice):
            layout.addWidget(part)
        layout.addLayout(row)

    def _connect(self) -> None:
        self.text.textChanged.connect(self._on_typed)
        self.text.send_asked.connect(self._ask_to_send)
        self.text.left.connect(self.left)
        self.text.data_given.connect(self._take_data)
        self.text.refused.connect(self._say)
        self._send.clicked.connect(self._ask_to_send)
        self._cancel.clicked.connect(self.left)
        # The file dialog may outlive these widgets.
        add = partial(self._pictures.add_files, self._draft)
        self._add.clicked.connect(lambda: self.choose_pictures_asked.emit(add))
        self.strip.open_asked.connect(self.open_picture_asked)
        self.strip.remove_asked.connect(self._remove)
        self.strip.filled.connect(self.filled)
        self._pictures.changed.connect(self._on_pictures)
        self._pictures.refused.connect(self._on_refused)

    def _on_typed(self) -> None:
        # A long text arrives in steps; reading all of it at each would take long.
        if self.text.is_complete():
            self._draft.text = self.text.toPlainText()
        self._enable()

    def _on_pictures(self, draft: Draft) -> None:
        if draft is self._draft:
            self.strip.show_draft(draft.pictures)
            self._enable()

    def _remove(self, number: int) -> None:
        # The removed picture may have the keyboard focus.
        self.text.setFocus()
        self._pictures.remove(self._draft, number)

    def _on_refused(self, draft: Draft, refusals: Sequence[Refusal]) -> None:
        if draft is self._draft:
            self._refusals += refusals
            self._say(not_added(self._refusals))

    def _take_data(self, data: QMimeData) -> None:
        refused = take_data(data, self._draft, self._pictures, self.text)
        if refused:
            self._on_refused(self._draft, (Refusal(said=refused),))

    def _enable(self) -> None:
        empty = self.text.document().isEmpty() and not self._draft.pictures
        self._send.setEnabled(self._draft.complete and not empty)

    def _say(self, said: str) -> None:
        self._notice.setText(said)
        self._notice.setVisible(bool(said))
        self.filled.emit()

    def _ask_to_send(self) -> None:
        if not self._draft.complete:
            self._say(tr("The message can be sent once its picture is ready."))
        elif self.text.toPlainText().strip() or self._draft.pictures:
            self.send_asked.emit(self.text.toPlainText())

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        may_take(event)

    def dropEvent(self, event: QDropEvent) -> None:
        self._take_data(event.mimeData())
        accept_copy(event)
