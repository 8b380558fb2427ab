"""What every message of the transcript has: its row, its small buttons, copying, and turning."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QGuiApplication
from PySide6.QtWidgets import (
    QApplication,
    QGraphicsOpacityEffect,
    QMenu,
    QWidget,
)

from desktop.chat.markdown.text_selection import TextOwner, text_selection
from desktop.chat.message_bar import MessageBar
from desktop.chat.messages import Row
from desktop.words.conversation import REPLY, YOUR_MESSAGE

# How many parts of a message that is not shown again are given up at a step.
SHED_AT_ONCE = 16


class MessageRow(TextOwner):
    """One message; `bar` is for the subclass to place.

    Signals:
        choose_asked(int): show this alternative.
        fork_asked(int): begin a new chat with the messages up to this one.
    """

    choose_asked = Signal(int)
    fork_asked = Signal(int)

    def __init__(self, row: Row, role: Literal["user", "assistant"]) -> None:
        super().__init__()
        is_reply = role == "assistant"
        self.setObjectName("replyRow" if is_reply else "userRow")
        self.setAccessibleName(REPLY if is_reply else YOUR_MESSAGE)
        self.setProperty("class", "messageRow")
        self.setProperty("role", role)
        self.row = row
        self.bar = MessageBar(is_reply)
        self.bar.copy_asked.connect(self._copy)
        self.bar.turn_asked.connect(self._turn)
        self.bar.fork_asked.connect(lambda: self.fork_asked.emit(self.row.id))
        self._hidden: QGraphicsOpacityEffect | None = None

    def is_busy(self) -> bool:
        """Whether the user is at work in it, so that it must stay as it is."""
        focused = QApplication.focusWidget()
        has_focus = focused is not None and self.isAncestorOf(focused)
        return has_focus or text_selection().is_in(self)

    def notice(self) -> None:
        """Show its buttons while the reader is here: with the pointer, with the keyboard."""
        focused = QApplication.focusWidget()
        has_focus = focused is not None and self.isAncestorOf(focused)
        if self._hidden is not None:
            self._hidden.setEnabled(not (self.shows_always() or self.underMouse() or has_focus))

    def shows_always(self) -> bool:
        """True if its buttons are seen wherever the reader is: where there are versions."""
        return len(self.row.message.siblings) > 1

    def hides(self, buttons: QWidget) -> None:
        """Have these seen only while the reader is here; they keep their room, and Tab finds them.

        What appears under the pointer must not move what the pointer is on.
        """
        self._hidden = QGraphicsOpacityEffect(buttons)
        self._hidden.setOpacity(0.0)
        buttons.setGraphicsEffect(self._hidden)
        self.notice()

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.notice()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.add_entries(menu)
        if menu.actions():
            menu.popup(event.globalPos())

    def add_entries(self, menu: QMenu) -> None:
        entries = self.bar.entries(menu)
        if entries and menu.actions():
            menu.addSeparator()
        menu.addActions(entries)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.notice()

    def unfolded(self) -> object:
        """What was opened in it by hand; None if nothing was."""
        return None

    def unfold(self, unfolded: object) -> None:
        """Open what `unfolded` says of the same message."""

    def is_drawn(self) -> bool:
        """True if all of it is drawn that will be until more is asked for."""
        return True

    def shed(self) -> bool:
        """Give up a few parts of a message that is not shown again; says whether any are left."""
        return False

    def _copy(self) -> None:
        # Always what was written, never what Markdown made of it.
        QGuiApplication.clipboard().setText(self.row.text)
        self.bar.say_copied()

    def _turn(self, step: int) -> None:
        sibling = self.row.sibling(step)
        if sibling is not None:
            self.choose_asked.emit(sibling)
