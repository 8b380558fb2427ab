"""The words of a listing: fixed-width, never wrapped, as high as its lines.

Knows how to grow without laying out again what is there, how to colour lines it is given, and that
a very long listing scrolls in a field of its own, of which Qt lays out only what is seen. The wheel
scrolls a short one sideways with Shift only; up and down belong to the page. Leaves which words
have which colour to highlight.py.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QResizeEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from desktop import theme
from desktop.chat.markdown.highlight import Span
from desktop.chat.markdown.text_selection import text_selection
from desktop.widgets.long_text import LongText

# A line that is never wrapped is laid out and drawn whole when any of it is seen.
LONGEST_LINE = 2_000
# Of more lines than this only so much is seen at once.
MOST_LINES_SEEN = 400
FIELD_HEIGHT = 480
# Lines of endless length fill a screen with letters, all of which are painted again at every word.
# While such a text grows, only so much of its end is shown, in short lines.
LONGEST_GROWING = 16_000
LONG_LINES = 200
# Short enough to be put in at one step.
TAIL = 3_600
TAIL_GROWTH = 800
TAIL_LINE = 80


class CodeText(LongText):
    """Read-only code."""

    longest_line = LONGEST_LINE

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ""
        self._skipped = 0  # how much of the code before `_shown` is not shown
        self.num_laid_out = 0  # characters; tests count the work by it
        self._is_field = False
        self._follows = False
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
        self.setFont(theme.fixed_font())
        self._colours: _Colours | None = None
        text_selection().watch(self)
        self.horizontalScrollBar().rangeChanged.connect(self.fit)
        self.verticalScrollBar().rangeChanged.connect(self._on_range)
        self.blockCountChanged.connect(self.fit)

    def set_code(self, code: str, grows: bool = False) -> None:
        """Show `code`; where it only grew, only the new part is laid out.

        Of a long listing that still `grows` the end is seen, unless the reader has left it.
        """
        bar = self.verticalScrollBar()
        self._follows = grows and bar.value() == bar.maximum()
        skipped = self._tail_start(code) if grows else 0
        code = code[skipped:]
        self.longest_line = TAIL_LINE if skipped else LONGEST_LINE
        self._choose_height(code)
        if self._shown and skipped == self._skipped and code.startswith(self._shown):
            end = QTextCursor(self.document())
            end.movePosition(QTextCursor.MoveOperation.End)
            self.num_laid_out += len(code) - len(self._shown)
            self.put(code[len(self._shown) :], end)
        elif code != self._shown:
            self.set_spans([])
            self.num_laid_out += len(code)
            self.setPlainText(code)
        self._shown, self._skipped = code, skipped
        self.fit()

    def shows_tail(self) -> bool:
        """True if only the end of the code is shown, because it grows in endless lines."""
        return self._skipped > 0

    def _tail_start(self, code: str) -> int:
        """How much of a growing text is not shown."""
        has_long_lines = len(code) > max(LONGEST_GROWING, LONG_LINES * (code.count("\n") + 1))
        if not self._skipped and not has_long_lines:
            return 0
        is_near = TAIL <= len(code) - self._skipped <= TAIL + TAIL_GROWTH
        return self._skipped if is_near else max(0, len(code) - TAIL)

    def set_spans(self, spans: list[list[Span]]) -> None:
        """Colour the lines."""
        if spans and self._colours is None:
            self._colours = _Colours(self.document())
        if self._colours is not None:
            self._colours.spans = spans
            self._colours.rehighlight()

    def rehighlight(self) -> None:
        """Draw the same words in the theme's present colours and size."""
        self.setFont(theme.fixed_font())
        if self._colours is not None:
            self._colours.rehighlight()

    def is_field(self) -> bool:
        """Whether only a part is seen at once."""
        return self._is_field

    def fit(self) -> None:
        """Be as high as the lines, and the bar below them if there is one."""
        if self._is_field:
            self.setFixedHeight(FIELD_HEIGHT)
            return
        lines = self.fontMetrics().lineSpacing() * self.blockCount()
        bar = self.horizontalScrollBar()
        room = bar.sizeHint().height() if bar.maximum() > 0 else 0
        self.setFixedHeight(lines + 2 * int(self.document().documentMargin()) + room)

    def _choose_height(self, code: str) -> None:
        is_field = code.count("\n") + len(code) // LONGEST_LINE >= MOST_LINES_SEEN
        if is_field != self._is_field:
            self._is_field = is_field
            policy = Qt.ScrollBarPolicy
            self.setVerticalScrollBarPolicy(
                policy.ScrollBarAsNeeded if is_field else policy.ScrollBarAlwaysOff
            )

    def _on_range(self, _first: int, last: int) -> None:
        # Qt counts one line too few as visible, and a selection would scroll the first line away.
        if last and not self._is_field:
            self.verticalScrollBar().setRange(0, 0)
        elif self._follows:
            self.verticalScrollBar().setValue(last)

    def sizeHint(self) -> QSize:
        return QSize(400, self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(40, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        sideways = event.angleDelta().x() and not event.angleDelta().y()
        if sideways or self._is_field:
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
