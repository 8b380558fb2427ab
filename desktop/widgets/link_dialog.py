"""Asks before an address that the model wrote is opened: the host first and whole, then all."""

from __future__ import annotations

from PySide6.QtGui import QTextOption
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from desktop.widgets.plain import Button, Label
from desktop.widgets.plain_text import shortened, visible
from desktop.widgets.question import GuardedButton
from desktop.widgets.web_address import WebAddress
from desktop.words import links as words

WIDTH = 460
ADDRESS_HEIGHT = 96
MOST_UNSEEN = 5
LONGEST_SHOWN = 8_000
# A longer host is set in smaller letters, so that all of it is seen at once.
LONGEST_TITLE = 40


class LinkDialog(QDialog):
    """Is accepted when the address is to be opened. Nothing in it is cut short or left unseen."""

    def __init__(self, question: str, address: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("linkDialog")
        self.setWindowTitle(words.LINK)
        self._column = QVBoxLayout(self)
        self._column.setSpacing(8)
        self._column.addWidget(Label(question, style="muted", wraps=True))
        self._address = QPlainTextEdit(shortened(address, LONGEST_SHOWN))
        self._address.setObjectName("linkAddress")
        self._address.setAccessibleName(words.WHOLE_ADDRESS)
        self._address.setReadOnly(True)
        self._address.setFixedHeight(ADDRESS_HEIGHT)
        self._address.setProperty("class", "field")
        self._address.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self._address.setTabChangesFocus(True)

    @classmethod
    def asking(cls, address: WebAddress, parent: QWidget | None = None) -> LinkDialog:
        """Asks whether to open an address."""
        dialog = cls(words.LEADS_TO, address.opened, parent)
        dialog._add_host(address)
        dialog._finish(("linkCancel", words.CANCEL), ("linkOpen", words.OPEN))
        return dialog

    @classmethod
    def refused(cls, address: str, reason: str, parent: QWidget | None = None) -> LinkDialog:
        """Says why an address is not opened."""
        dialog = cls(words.NOT_OPENED, visible(address), parent)
        dialog._warn("linkRefusal", reason)
        dialog._finish(("linkCancel", words.CLOSE))
        return dialog

    def _add_host(self, address: WebAddress) -> None:
        style = "title" if len(address.host) <= LONGEST_TITLE else "heading"
        self._column.addWidget(
            Label(address.host, name="linkHost", style=style, wraps=True, selectable=True)
        )
        if address.letters:
            self._warn("linkLetters", words.in_letters(address.letters))
        if address.unseen:
            self._warn("linkUnseen", words.unseen(" ".join(address.unseen[:MOST_UNSEEN])))

    def _warn(self, name: str, said: str) -> None:
        self._column.addWidget(Label(said, name=name, style="warning", wraps=True))

    def _finish(self, leave: tuple[str, str], accept: tuple[str, str] | None = None) -> None:
        self._column.addWidget(self._address)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self._button(*leave, self.reject))
        if accept is not None:
            row.addWidget(self._button(*accept, self.accept))
        self._column.addLayout(row)
        # A layout reckons with wrapped labels as if they had one line, unless it is asked.
        self.resize(WIDTH, self._column.totalHeightForWidth(WIDTH))

    def _button(self, name: str, said: str, act: object) -> Button:
        # A double click on the link must not open it where the dialog comes up under the pointer.
        kind = Button if name == "linkCancel" else GuardedButton
        button = kind(said, name=name, spoken=said)
        # Enter leaves: to open an address takes a press on the button that says so.
        button.setDefault(name == "linkCancel")
        button.setAutoDefault(name == "linkCancel")
        button.clicked.connect(act)
        return button
