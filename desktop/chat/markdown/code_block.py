"""A code block with its language and a copy button."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, QTimer
from PySide6.QtGui import (
    QColor,
    QPaintEvent,
    QResizeEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from desktop import theme
from desktop.chat.markdown.highlight import Highlighting, Span, is_loaded
from desktop.chat.markdown.text_selection import text_selection
from desktop.i18n import tr
from desktop.widgets.icon_button import CopyButton
from desktop.widgets.layouts import column, row
from desktop.widgets.long_text import LongText
from desktop.widgets.pacing import pace
from desktop.widgets.plain import Label, named

# A line that isn't wrapped is laid out and drawn whole when any of it is visible.
LONGEST_LINE = 2_000
# More lines scroll in a field of this height.
MOST_LINES_SEEN = 400
FIELD_HEIGHT = 480
# Endless lines fill a screen with letters that are painted again at every token. While such a text
# grows, only its end is shown, in short lines.
LONGEST_GROWING = 16_000
LONG_LINES = 200
# Short enough to insert at one step.
TAIL = 3_600
TAIL_GROWTH = 800
TAIL_LINE = 80


class CodeText(LongText):
    """Never wrapped; growing code lays out only its new part.

    Shift and the wheel scroll sideways; up and down belong to the page.
    """

    longest_line = LONGEST_LINE

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._length = 0  # characters shown, and those before them that are not
        self._skipped = 0
        self.num_laid_out = 0  # characters; for tests
        self._is_field = False
        self._follows = False
        text_selection().watch(self)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self.document().setDocumentMargin(6)
        self.setFont(theme.fixed_font())
        self._colours: _Colours | None = None
        self.horizontalScrollBar().rangeChanged.connect(self.fit)
        self.verticalScrollBar().rangeChanged.connect(self._on_range)
        self.blockCountChanged.connect(self.fit)

    def set_code(self, code: str, grows: bool = False, extends: bool = False) -> None:
        """While it `grows`, the view follows its end unless the reader scrolled up. `extends`: it
        begins with the last code."""
        bar = self.verticalScrollBar()
        self._follows = grows and bar.value() == bar.maximum()
        skipped = self._tail_start(code) if grows else 0
        code = code[skipped:]
        self.longest_line = TAIL_LINE if skipped else LONGEST_LINE
        self._choose_height(code)
        if extends and skipped == self._skipped and 0 < self._length <= len(code):
            new = code[self._length :]
            if new:
                end = QTextCursor(self.document())
                end.movePosition(QTextCursor.MoveOperation.End)
                self.put(new, end)
        else:
            new = code
            self.set_spans([])
            self.setPlainText(code)
        self.num_laid_out += len(new)
        self._length, self._skipped = len(code), skipped
        self.fit()

    def shows_tail(self) -> bool:
        """True while only the end of long growing lines is shown."""
        return self._skipped > 0

    def _tail_start(self, code: str) -> int:
        has_long_lines = len(code) > max(LONGEST_GROWING, LONG_LINES * (code.count("\n") + 1))
        if not self._skipped and not has_long_lines:
            return 0
        is_near = TAIL <= len(code) - self._skipped <= TAIL + TAIL_GROWTH
        return self._skipped if is_near else max(0, len(code) - TAIL)

    def set_spans(self, spans: list[list[Span]]) -> None:
        if spans and self._colours is None:
            self._colours = _Colours(self.document())
        if self._colours is not None:
            self._colours.spans = spans
            self._colours.rehighlight()

    def rehighlight(self) -> None:
        self.setFont(theme.fixed_font())
        if self._colours is not None:
            self._colours.rehighlight()

    def is_field(self) -> bool:
        return self._is_field

    def fit(self) -> None:
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
        # Qt counts one line too few as visible; a selection would scroll the first line away.
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


# Time for highlighting at a step.
COLOUR_FOR_S = 0.004
# Until another look for the lexer.
LOADED_AFTER_MS = 10


class CodeBlock(QFrame):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._code = ""
        self._language = ""
        self._closed = False
        # None until the block is closed and visible.
        self._colours: Highlighting | None = None
        self._coloured = False
        self._label = Label(parent=self, name="codeLanguage")
        self._copy_button = named(CopyButton(tr("Copy the code"), self), "codeCopy")
        self._copy_button.clicked.connect(self.copy)
        tail = tr("The beginning is shown once this is complete.")
        self._note = Label(tail, self, name="codeTail", style="muted small", wraps=True)
        self._note.setIndent(6)
        self._note.hide()
        self._text = CodeText(self)
        self._lay_out()
        theme.signals().changed.connect(self._text.rehighlight)

    def set_code(
        self,
        code: str,
        language: str = "",
        closed: bool = True,
        grows: bool = False,
        extends: bool = False,
    ) -> None:
        """Coloured once `closed`; see `CodeText`."""
        self._code, self._language, self._closed = code, language, closed
        self._colours, self._coloured = None, False
        self._label.setText(language or "text")
        self._text.set_code(code, grows, extends)
        self._note.setVisible(self._text.shows_tail())
        spoken = tr("Code, {language}").format(language=language) if language else tr("Code")
        self._text.setAccessibleName(spoken)
        self.update()

    def code(self) -> str:
        return self._code

    def language(self) -> str:
        return self._language

    def is_coloured(self) -> bool:
        return self._coloured

    def copy(self) -> None:
        self._copy_button.copy_text(self._code)

    def _colour(self) -> bool:
        if self._coloured or not self._closed:
            return False
        if not is_loaded(self._language):
            QTimer.singleShot(LOADED_AFTER_MS, self, lambda: pace().go_on(self._colour))
            return False
        if self._colours is None:
            self._colours = Highlighting(self._code, self._language)
        if self._colours.go_on(COLOUR_FOR_S):
            return True
        self._coloured = True
        self._text.set_spans(self._colours.spans)
        return False

    def _lay_out(self) -> None:
        head = row(self._label, None, self._copy_button, margins=(6, 4, 0, 0))
        column(head, self._note, self._text, of=self, margins=(6, 0, 6, 4), spacing=0)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        # Only the code that comes into view is coloured.
        if self._closed and not self._coloured:
            pace().go_on(self._colour)
