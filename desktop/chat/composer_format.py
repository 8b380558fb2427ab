"""The form of replies in the composer: a button with a menu, and a line while one is in force."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QMenu, QWidget

from core.api.reply_format import ReplyFormat
from desktop.chat.chat import ChatController
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import ToolButton, action, set_tip
from desktop.words import formats as words

JSON = ReplyFormat(kind="json")


class ComposerFormat(QWidget):
    """The line, hidden while replies are free; `button` stands elsewhere.

    Signals:
        schema_asked(): a schema is to be written, or changed.
    """

    schema_asked = Signal()

    def __init__(self, chat: ChatController) -> None:
        super().__init__()
        self.setObjectName("composerFormat")
        self._chat = chat
        self.button = IconButton("braces", words.FORMAT, name="replyFormat")
        self.button.clicked.connect(lambda: self._open(self.button))
        self._menu = QMenu(self)
        self._menu.setObjectName("replyFormatMenu")
        self._entries = {
            name: self._entry(name, said, act)
            for name, said, act in (
                ("actionFormatFree", words.FREE, lambda: chat.ask_for(None)),
                ("actionFormatJson", words.JSON, lambda: chat.ask_for(JSON)),
                ("actionFormatSchema", words.BY_SCHEMA, self.schema_asked.emit),
            )
        }
        self._chip = ToolButton()
        self._chip.setObjectName("formatChip")
        self._chip.setProperty("class", "chip")
        self._chip.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._chip.setAccessibleName(words.CHANGE)
        set_tip(self._chip, words.CHANGE)
        self._chip.clicked.connect(self._change)
        self._off = IconButton("close", words.FREE_AGAIN, name="formatOff", pixels=12)
        self._off.clicked.connect(lambda: chat.ask_for(None))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._chip)
        layout.addWidget(self._off)
        layout.addStretch(1)
        chat.format_changed.connect(self._show)
        self._show()

    def menu_shown(self) -> QMenu:
        """The menu as it would open now, what is in force marked."""
        form = self._chat.format
        kind = None if form is None else form.kind
        for name, of in zip(self._entries, (None, "json", "json_schema"), strict=True):
            self._entries[name].setChecked(kind == of)
        return self._menu

    def _entry(self, name: str, said: str, act: Callable[[], object]) -> QAction:
        entry = action(said, self, act)
        entry.setObjectName(name)
        entry.setCheckable(True)
        self._menu.addAction(entry)
        return entry

    def _change(self) -> None:
        form = self._chat.format
        if form is not None and form.kind == "json_schema":
            self.schema_asked.emit()
        else:
            self._open(self._chip)

    def _open(self, above: QWidget) -> None:
        menu = self.menu_shown()
        # Over the button, which is at the lower edge of the window.
        menu.popup(above.mapToGlobal(QPoint(0, -menu.sizeHint().height() - 2)))

    def _show(self) -> None:
        form = self._chat.format
        self.setVisible(form is not None)
        if form is not None:
            said = words.format_words(form)
            self._chip.set_words(said)
            self._chip.setAccessibleName(f"{said}. {words.CHANGE}")
