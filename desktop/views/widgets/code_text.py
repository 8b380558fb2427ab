"""The words of a listing: fixed-width, never wrapped, as high as its lines.

Knows how to grow without laying out again what is there, and how to colour lines it is given. The
wheel scrolls sideways with Shift only; up and down belong to the page. Leaves which words have
which colour to highlight.py.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontDatabase,
    QResizeEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from desktop import theme
from desktop.views.widgets.highlight import Span

# A longer line takes Qt seconds to lay out; it is broken for the eye, while Copy gives it whole.
LONGEST_LINE = 5_000


class CodeText(QPlainTextEdit):
    """Read-only code."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ""
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self.document().setDocumentMargin(6)
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._colours: _Colours | None = None
        self.horizontalScrollBar().rangeChanged.connect(self.fit)
        self.verticalScrollBar().rangeChanged.connect(self._stay_put)

    def set_code(self, code: str) -> None:
        """Show `code`; where it only grew, only the new part is laid out."""
        shown = _broken(code)
        if self._shown and shown.startswith(self._shown):
            cursor = QTextCursor(self.document())
            cursor.movePosition(QTextCursor.MoveOperation.End)
            cursor.insertText(shown[len(self._shown) :])
        elif shown != self._shown:
            self.set_spans([])
            self.setPlainText(shown)
        self._shown = shown
        self.fit()

    def set_spans(self, spans: list[list[Span]]) -> None:
        """Colour the lines."""
        if spans and self._colours is None:
            self._colours = _Colours(self.document())
        if self._colours is not None:
            self._colours.spans = spans
            self._colours.rehighlight()

    def rehighlight(self) -> None:
        """Draw the same words in the theme's present colours."""
        if self._colours is not None:
            self._colours.rehighlight()

    def fit(self) -> None:
        """Be as high as the lines, and the bar below them if there is one."""
        lines = self.fontMetrics().lineSpacing() * self.blockCount()
        bar = self.horizontalScrollBar()
        room = bar.sizeHint().height() if bar.maximum() > 0 else 0
        self.setFixedHeight(lines + 2 * int(self.document().documentMargin()) + room)

    def _stay_put(self, _first: int, last: int) -> None:
        # Qt counts one line too few as visible, and a selection would scroll the first line away.
        if last:
            self.verticalScrollBar().setRange(0, 0)

    def sizeHint(self) -> QSize:
        return QSize(400, self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(40, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().x() and not event.angleDelta().y():
            super().wheelEvent(event)
        else:
            event.ignore()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.fit()


class _Colours(QSyntaxHighlighter):
    """Colours each line by the spans found beforehand."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self.spans: list[list[Span]] = []

    def highlightBlock(self, text: str) -> None:
        number = self.currentBlock().blockNumber()
        if number < len(self.spans):
            table = theme.colours()
            for start, length, name in self.spans[number]:
                words = QTextCharFormat()
                words.setForeground(QColor(getattr(table, name)))
                self.setFormat(start, length, words)


def _broken(code: str) -> str:
    if len(code) <= LONGEST_LINE:
        return code
    lines = []
    for line in code.split("\n"):
        pieces = range(0, max(1, len(line)), LONGEST_LINE)
        lines += [line[start : start + LONGEST_LINE] for start in pieces]
    return "\n".join(lines)
