"""The text of a reply in JSON."""

from __future__ import annotations

import shiboken6
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QVBoxLayout, QWidget

from core.api.reply_format import ReplyFormat
from desktop import theme
from desktop.chat.data.data_view import DataItems, DataView
from desktop.chat.data.reading import Reading
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.markdown.text_selection import WholeText
from desktop.i18n import tr
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Label, ToolButton

DATA, SOURCE = 1, 2


class JsonBody(WholeText):
    """The text of a structured reply: its source while it grows, then also a table or tree.

    Has the methods of `MarkdownBody`. `read_asked()`: the text is complete.
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
        self._data_button = self._button("showData", DATA, tr("Tree"), tr("The reply as a tree"))
        self._button("showSource", SOURCE, tr("Source"), tr("The reply as it was written"))
        self._buttons.idClicked.connect(self.show_pages)
        self._validity = Label(name="replyValidity", style="muted small", wraps=True)
        self._layout = self._build()
        self._show()

    def append(self, text: str) -> None:
        if text:
            self._set_text(self._text + text, extends=True)

    def set_text(self, text: str) -> None:
        self._set_text(text, extends=False)

    def _set_text(self, text: str, extends: bool) -> None:
        self._text, self._finished = text, False
        self._drop_view()
        self._validity.setText("")
        self._source.set_code(text, "json", closed=False, grows=True, extends=extends)
        self._show()

    def finish(self) -> None:
        if not self._finished and self._text:
            self._finished = True
            self._source.set_code(self._text, "json", extends=True)
            self.read_asked.emit()

    def text(self) -> str:
        return self._text

    def show_reading(self, reading: Reading) -> None:
        self._drop_view()
        self._validity.setText(validity_text(self._format, reading))
        is_valid = not (reading.fault or reading.unchecked)
        self._validity.setProperty("class", "muted small" if is_valid else "warning small")
        theme.restyle(self._validity)
        if reading.root is not None:
            items = DataItems(reading)
            self._view = DataView(items, self)
            items.setParent(self._view)
            self._layout.addWidget(self._view)
            self._data_button.set_words(tr("Table") if items.is_table else tr("Tree"))
            self._data_button.setAccessibleName(self._view.accessibleName())
        self._show()

    def is_json(self) -> bool:
        return self._view is not None

    def pages(self) -> int:
        return self._chosen

    def show_pages(self, page: int) -> None:
        """Choose a page; the data is shown once it is read."""
        self._chosen = page
        self._show()

    def shed(self, count: int) -> bool:
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

    def _build(self) -> QVBoxLayout:
        head = row(*self._buttons.buttons(), spacing=4)
        head.addSpacing(6)
        head.addWidget(self._validity, 1)
        return column(head, self._source, of=self, spacing=6)


def validity_text(reply_format: ReplyFormat, reading: Reading) -> str:
    if reading.unchecked:
        return tr("Not checked: {reason}").format(reason=reading.unchecked)
    if reading.fault:
        return tr("Not valid: {reason}").format(reason=reading.fault)
    return tr("Valid JSON.") if reply_format.kind == "json" else tr("Valid against the schema.")
