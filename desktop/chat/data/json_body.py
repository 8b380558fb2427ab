"""A reply that is to be JSON: its source while it grows, then also a table or a tree of it.

Knows which of both is shown, and says whether the reply is of its form. Reading it is asked for by
`read_asked`, since that takes time; what was read comes back through `show_reading`.
"""

from __future__ import annotations

import shiboken6
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QVBoxLayout, QWidget

from core.api.reply_format import ReplyFormat
from desktop import theme
from desktop.chat.data.data_view import DataView
from desktop.chat.data.items import DataItems
from desktop.chat.data.reading import Reading
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.markdown.text_selection import WholeText
from desktop.widgets.plain import Label, ToolButton
from desktop.words import formats as words

DATA, SOURCE = 1, 2


class JsonBody(WholeText):
    """Takes text as MarkdownBody does.

    Signals:
        read_asked(): the text is complete; it is to be read.
    """

    read_asked = Signal()

    def __init__(self, reply_format: ReplyFormat, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._format = reply_format
        self._text = ""
        self._finished = False
        self._chosen = DATA
        self._view: DataView | None = None
        self._source = CodeBlock(self)
        self._source.set_code("", "json", closed=False)
        self._buttons = QButtonGroup(self)
        self._data_button = self._button("showData", DATA, words.TREE, words.TREE_SPOKEN)
        self._button("showSource", SOURCE, words.SOURCE, words.SOURCE_SPOKEN)
        self._buttons.idClicked.connect(self.show_pages)
        self._validity = Label(name="replyValidity", style="muted small", wraps=True)
        self._layout = QVBoxLayout(self)
        self._build()
        self._show()

    def append(self, text: str) -> None:
        """More text."""
        if text:
            self.set_text(self._text + text)

    def set_text(self, text: str) -> None:
        """Show a text in place of what is shown; what was read of it before is no longer true."""
        self._text, self._finished = text, False
        self._drop_view()
        self._validity.setText("")
        self._source.set_code(text, "json", closed=False, grows=True)
        self._show()

    def finish(self) -> None:
        """The text is complete."""
        if not self._finished and self._text:
            self._finished = True
            self._source.set_code(self._text, "json")
            self.read_asked.emit()

    def text(self) -> str:
        """Exactly the text that came in."""
        return self._text

    def show_reading(self, reading: Reading) -> None:
        """Show what was read of the text."""
        self._drop_view()
        said = words.validity_words(self._format, reading.fault, reading.unchecked)
        self._validity.setText(said)
        is_valid = not (reading.fault or reading.unchecked)
        self._validity.setProperty("class", "muted small" if is_valid else "warning small")
        theme.restyle(self._validity)
        if reading.root is not None:
            items = DataItems(reading)
            self._view = DataView(items, self)
            items.setParent(self._view)
            self._layout.addWidget(self._view)
            self._data_button.set_words(words.TABLE if items.is_table else words.TREE)
            self._data_button.setAccessibleName(self._view.accessibleName())
        self._show()

    def is_json(self) -> bool:
        """Whether the text was read and is JSON."""
        return self._view is not None

    def pages(self) -> int:
        """Which of its two pages is chosen, 1 for the data and 2 for the source."""
        return self._chosen

    def show_pages(self, page: int) -> None:
        """Turn to that page, as soon as there is one."""
        self._chosen = page
        self._show()

    def shed(self, count: int) -> bool:
        """Give up what is not shown again; nothing is left then."""
        if self._view is not None:
            shiboken6.delete(self._view)
            self._view = None
        return False

    def _show(self) -> None:
        shows_data = self._view is not None and self._chosen == DATA
        if self._view is not None:
            self._view.setVisible(shows_data)
        self._source.setVisible(not shows_data)
        for button in self._buttons.buttons():
            button.setVisible(self._view is not None)
        self._buttons.button(self._chosen).setChecked(True)
        self._validity.setVisible(bool(self._validity.text()))

    def _drop_view(self) -> None:
        if self._view is not None:
            self._layout.removeWidget(self._view)
            self._view.hide()
            self._view.deleteLater()
            self._view = None

    def _button(self, name: str, page: int, said: str, spoken: str) -> ToolButton:
        button = ToolButton(self)
        button.setObjectName(name)
        button.set_words(said)
        button.setAccessibleName(spoken)
        button.setCheckable(True)
        self._buttons.addButton(button, page)
        return button

    def _build(self) -> None:
        head = QHBoxLayout()
        head.setContentsMargins(0, 0, 0, 0)
        head.setSpacing(4)
        for button in self._buttons.buttons():
            head.addWidget(button)
        head.addSpacing(6)
        head.addWidget(self._validity, 1)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(6)
        self._layout.addLayout(head)
        self._layout.addWidget(self._source)
