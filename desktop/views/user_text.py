"""A user's words as they were typed: never as markup; a very long text scrolls in a field."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from desktop.views.widgets.block_text import SHORT_TEXT, BlockText
from desktop.views.widgets.long_text import LongText
from desktop.views.widgets.text_selection import WholeText, text_selection

# From here on a field is used, which lays out only what is seen.
LONGEST_BLOCK = 8_000
MOST_LINES = 400
LONG_TEXT_HEIGHT = 320
# Letters of a text by which its width is judged.
MEASURED = 4_000


class UserText(WholeText):
    """Shows one plain text, selectable."""

    def __init__(self) -> None:
        super().__init__()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._shown: QWidget | None = None
        self._text = ""

    def set_text(self, text: str) -> None:
        if self._shown is not None:
            self._shown.hide()
            self._shown.deleteLater()
        self._text = text
        is_long = len(text) > LONGEST_BLOCK or text.count("\n") >= MOST_LINES
        self._shown = _field(text) if is_long else _block(text)
        self._layout.addWidget(self._shown)
        self.setVisible(bool(text))

    def wished_width(self) -> int:
        """As wide as the longest line is, so that none is broken."""
        if self._shown is None:
            return 0
        if len(self._text) <= SHORT_TEXT:
            return self._shown.sizeHint().width()
        lines = self._text[:MEASURED].split("\n")
        return max(map(self._shown.fontMetrics().horizontalAdvance, lines)) + 2


def _block(text: str) -> BlockText:
    block = BlockText()
    block.setObjectName("userText")
    block.setAccessibleName("Your message")
    block.show_plain(text)
    return block


def _field(text: str) -> LongText:
    field = LongText()
    field.setObjectName("userLongText")
    field.setAccessibleName("Your message")
    field.setReadOnly(True)
    field.setUndoRedoEnabled(False)
    field.setFrameShape(QFrame.Shape.NoFrame)
    field.viewport().setAutoFillBackground(False)
    field.setFixedHeight(LONG_TEXT_HEIGHT)
    field.setPlainText(text)
    text_selection().watch(field)
    return field
