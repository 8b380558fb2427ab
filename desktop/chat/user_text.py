"""A user's words: their Markdown as in replies, or as they were typed.

A very long text is never formatted, and scrolls in a field.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from desktop import theme
from desktop.chat.markdown.block_text import INDENT, SHORT_TEXT, BlockText
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.markdown.markdown_body import MarkdownBody, indent_of
from desktop.chat.markdown.text_selection import WholeText, text_selection
from desktop.widgets.long_text import LongText
from desktop.words.conversation import YOUR_MESSAGE

# From here on a field is used, which lays out only what is seen.
LONGEST_BLOCK = 8_000
MOST_LINES = 400
LONG_TEXT_HEIGHT = 320
# Letters of a text by which its width is judged.
MEASURED = 4_000
# Around the words of code: its frame, and its head with a button.
CODE_FRAME = 30
NARROWEST_CODE = 160


class UserText(WholeText):
    """Shows one text, selectable.

    Signals:
        link_activated(str): a full http or https address.
        laid_out(): it may wish for another width.
    """

    link_activated = Signal(str)
    laid_out = Signal()

    def __init__(self, formatted: bool = True) -> None:
        super().__init__()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._shown: QWidget | None = None
        self._formatted = formatted
        self._text = ""

    def set_text(self, text: str) -> None:
        if self._shown is not None:
            self._shown.hide()
            self._shown.deleteLater()
        self._text = text
        is_long = len(text) > LONGEST_BLOCK or text.count("\n") >= MOST_LINES
        if is_long:
            self._shown = _field(text)
        else:
            self._shown = self._body(text) if self._formatted else _block(text)
        self._layout.addWidget(self._shown)
        self.setVisible(bool(text))

    def show_formatted(self, formatted: bool) -> None:
        """Render Markdown, or show the text as it was typed."""
        if formatted != self._formatted:
            self._formatted = formatted
            self.set_text(self._text)

    def wished_width(self) -> int:
        """As wide as the longest line is, so that none is broken."""
        if isinstance(self._shown, MarkdownBody):
            return max(map(_width, self._shown.blocks()), default=0)
        if self._shown is None:
            return 0
        if len(self._text) <= SHORT_TEXT:
            return self._shown.sizeHint().width()
        return _measured(self._shown, self._text)

    def shed(self, count: int) -> bool:
        """Give up so many widgets of what is not shown again; says whether any are left."""
        return isinstance(self._shown, MarkdownBody) and self._shown.shed(count)

    def event(self, event: QEvent) -> bool:
        handled = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self.laid_out.emit()
        return handled

    def _body(self, text: str) -> MarkdownBody:
        body = MarkdownBody(self, keeps_lines=True)
        body.setObjectName("userText")
        body.setAccessibleName(YOUR_MESSAGE)
        body.link_activated.connect(self.link_activated)
        body.set_text(text)
        return body


def _width(block: BlockText | CodeBlock) -> int:
    """The preferred width of a block of Markdown."""
    if isinstance(block, CodeBlock):
        measure = QFontMetrics(theme.fixed_font()).horizontalAdvance
        longest = max(map(measure, block.code()[:MEASURED].split("\n")))
        width = max(NARROWEST_CODE, longest + CODE_FRAME)
    else:
        words = block.toPlainText()
        is_short = len(words) <= SHORT_TEXT
        width = block.sizeHint().width() if is_short else _measured(block, words) + INDENT
    return width + indent_of(block)


def _measured(widget: QWidget, text: str) -> int:
    """The width of the longest line of a text."""
    return max(map(widget.fontMetrics().horizontalAdvance, text[:MEASURED].split("\n"))) + 2


def _block(text: str) -> BlockText:
    block = BlockText()
    block.setObjectName("userText")
    block.setAccessibleName(YOUR_MESSAGE)
    block.show_plain(text)
    return block


def _field(text: str) -> LongText:
    field = LongText()
    field.setObjectName("userLongText")
    field.setAccessibleName(YOUR_MESSAGE)
    field.setReadOnly(True)
    field.setUndoRedoEnabled(False)
    field.setFrameShape(QFrame.Shape.NoFrame)
    field.viewport().setAutoFillBackground(False)
    field.setFixedHeight(LONG_TEXT_HEIGHT)
    field.setPlainText(text)
    text_selection().watch(field)
    return field
