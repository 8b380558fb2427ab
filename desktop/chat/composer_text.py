"""The field one types in: Enter sends, Shift+Enter breaks, pasted pictures go elsewhere."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy

from desktop.pictures.given_data import FILE_TYPES
from desktop.widgets.long_text import LongText
from desktop.words.conversation import ASK, MESSAGE

MOST_LINES_SEEN = 8


class ComposerText(LongText):
    """Plain text that grows with its lines up to a limit.

    Signals:
        send_asked(): Enter was pressed.
        left(): Esc was pressed, if the field is one to be left.
        data_given(QMimeData): pictures or files were pasted.
    """

    send_asked = Signal()
    left = Signal()
    data_given = Signal(object)

    def __init__(self, can_be_left: bool = False) -> None:
        super().__init__()
        self._can_be_left = can_be_left
        self.setObjectName("composerText")
        self.setAccessibleName(MESSAGE)
        self.setPlaceholderText(ASK)
        self.setTabChangesFocus(True)
        # What is dropped belongs to the whole column, which takes it in one way.
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
        """How many lines the text has, as it is wrapped."""
        # A plain document's height is counted in lines.
        return max(1, int(self.document().size().height()))

    def _fit(self) -> None:
        """Grow with the text; while all of it is seen, there is nothing to scroll."""
        self.updateGeometry()
        bar = self.verticalScrollBar()
        # Qt scrolls to the cursor before the field has grown, and counts a line too few as seen.
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
        elided = self.fontMetrics().elidedText(ASK, Qt.TextElideMode.ElideRight, room)
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
    """Whether this is a picture or files, rather than text; a copied web address is text."""
    # What this process copied itself has an encoded form only.
    pictured = data.hasImage() or any(map(data.hasFormat, FILE_TYPES))
    return pictured or any(url.isLocalFile() for url in data.urls())
