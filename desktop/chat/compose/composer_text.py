"""The field that messages are written in."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent, QTextCursor
from PySide6.QtWidgets import QSizePolicy

from desktop.i18n import tr
from desktop.pictures.given_data import has_files
from desktop.widgets.long_text import LongText
from desktop.widgets.plain import named

MOST_LINES_SEEN = 8
# A longer text that is pasted is attached: what is written after it leaves its tokens as they are.
LONG_PASTE = 8_000
# A shorter pause is for thinking.
PAUSE_MS = 1_000


class Attached(NamedTuple):
    """A pasted text: where, and after how many undoable steps."""

    text: str
    place: QTextCursor
    undo_steps: int


class ComposerText(LongText):
    """Enter sends, Shift+Enter breaks a line.

    `data_given(QMimeData)`: pasted pictures or files; `text_given(text)`: a long text to attach;
    `undone(number)`: take back an attached text.
    """

    send_asked = Signal()
    left = Signal()
    data_given = Signal(object)
    text_given = Signal(str)
    undone = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.attached: dict[int, Attached] = {}
        # Texts taken back, with the steps that could be undone and redone then.
        self._undone: list[tuple[str, int, int]] = []
        self.can_be_left = False  # with Esc
        self.most_lines = MOST_LINES_SEEN
        named(self, "composerText", tr("Message"))
        self.placeholder = tr("Ask a question, or drop a picture or a document")
        self.setTabChangesFocus(True)
        # The column around it takes drops.
        self.setAcceptDrops(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self.verticalScrollBar().rangeChanged.connect(self._fit)
        self.textChanged.connect(self._align)

    def _align(self) -> None:
        """Align by the first line: Qt aligns all lines alike."""
        to_left = self.document().firstBlock().textDirection() is Qt.LayoutDirection.RightToLeft
        side = Qt.AlignmentFlag.AlignRight if to_left else Qt.AlignmentFlag.AlignLeft
        option = self.document().defaultTextOption()
        if option.alignment() != side:
            option.setAlignment(side)
            self.document().setDefaultTextOption(option)

    def event(self, event: QEvent) -> bool:
        # Else the window's own Esc, which stops a reply, would have it.
        if self.can_be_left and event.type() == QEvent.Type.ShortcutOverride:
            assert isinstance(event, QKeyEvent)
            if event.key() == Qt.Key.Key_Escape:
                event.accept()
                return True
        return super().event(event)

    def _lines(self) -> int:
        # A plain document's height is counted in lines.
        return max(1, int(self.document().size().height()))

    def _fit(self) -> None:
        self.updateGeometry()
        bar = self.verticalScrollBar()
        # Qt scrolls to the cursor before the field has grown, and counts one line too few.
        if self._lines() <= self.most_lines and bar.maximum() > 0:
            bar.setRange(0, 0)

    def sizeHint(self) -> QSize:
        shown = min(self._lines(), self.most_lines)
        margins = 2 * (int(self.document().documentMargin()) + self.frameWidth()) + 2
        return QSize(super().sizeHint().width(), shown * self.fontMetrics().lineSpacing() + margins)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.sizeHint().height())

    def gave_away(self, text: str) -> bool:
        if len(text) <= LONG_PASTE:
            return False
        self._undone.clear()
        self.textCursor().removeSelectedText()
        self.text_given.emit(text)
        return True

    def note_attached(self, number: int, text: str) -> None:
        place = self.textCursor()
        place.setKeepPositionOnInsert(True)
        # Else Qt undoes the next letters together with the last.
        self.document().setModified(False)
        self.attached[number] = Attached(text, place, self.document().availableUndoSteps())

    def setPlainText(self, text: str) -> None:
        self.attached.clear()
        self._undone.clear()
        super().setPlainText(text)

    def _undo_attached(self) -> bool:
        document = self.document()
        undo_steps, redo_steps = document.availableUndoSteps(), document.availableRedoSteps()
        for number, attached in reversed(self.attached.items()):
            if attached.undo_steps == undo_steps:
                document.setModified(False)
                self._undone.append((attached.text, undo_steps, redo_steps))
                self.undone.emit(number)
                return True
        return False

    def _redo_attached(self) -> bool:
        document = self.document()
        steps = document.availableUndoSteps(), document.availableRedoSteps()
        if not self._undone or self._undone[-1][1:] != steps:
            return False
        self.text_given.emit(self._undone.pop()[0])
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = QKeySequence.StandardKey
        if (event.matches(keys.Undo) and self._undo_attached()) or (
            event.matches(keys.Redo) and self._redo_attached()
        ):
            event.accept()
            return
        modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        if event.key() == Qt.Key.Key_V and event.modifiers() == modifiers:
            if text := QGuiApplication.clipboard().text():
                self.take_text(text, plain=True)
            event.accept()
            return
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        breaks = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if enter and not breaks:
            self.send_asked.emit()
            event.accept()
            return
        if self.can_be_left and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
            event.accept()
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        room = self.viewport().width() - 2 * int(self.document().documentMargin())
        elided = self.fontMetrics().elidedText(self.placeholder, Qt.TextElideMode.ElideRight, room)
        self.setPlaceholderText(elided)
        self._fit()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return has_files(source) or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        if has_files(source):
            self.data_given.emit(source)
        else:
            super().insertFromMimeData(source)
