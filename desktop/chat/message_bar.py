"""The small buttons under a message: copy, edit or regenerate, fork, continue, alternatives."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QWidget

from desktop import theme
from desktop.chat.messages import Row
from desktop.widgets.icon_button import CopyButton, IconButton
from desktop.widgets.plain import Button, Label, action, set_tip
from desktop.words.conversation import (
    ANOTHER,
    CONTINUE,
    CONTINUE_TIP,
    EDIT,
    FORK,
    after_words,
    before_words,
    copy_words,
    place_words,
    version_words,
)
from desktop.words.formats import COPY_JSON


class MessageBar(QWidget):
    """Buttons of one message.

    Signals:
        copy_asked(), copy_json_asked(), edit_asked(), regenerate_asked(): what they say.
        go_on_asked(), fork_asked(): likewise.
        turn_asked(int): show the alternative so many places on.
    """

    copy_asked = Signal()
    copy_json_asked = Signal()
    edit_asked = Signal()
    regenerate_asked = Signal()
    go_on_asked = Signal()
    fork_asked = Signal()
    turn_asked = Signal(int)

    def __init__(self, is_reply: bool) -> None:
        super().__init__()
        what = "reply" if is_reply else "message"
        self._before = self._button("chevron_left", before_words(what), "turnBack")
        self._before.clicked.connect(lambda: self.turn_asked.emit(-1))
        self._place = Label(name="alternativePlace", style="muted small")
        self._after = self._button("chevron_right", after_words(what), "turnOn")
        self._after.clicked.connect(lambda: self.turn_asked.emit(1))
        self._copy = CopyButton(copy_words(what))
        self._copy.setObjectName("copyMessage")
        self._copy.clicked.connect(self.copy_asked)
        self._copy_json = CopyButton(COPY_JSON, icon="braces")
        self._copy_json.setObjectName("copyJson")
        self._copy_json.clicked.connect(self.copy_json_asked)
        self._copy_json.hide()
        self._again = (
            self._button("regenerate", ANOTHER, "regenerate")
            if is_reply
            else self._button("edit", EDIT, "editMessage")
        )
        self._again.clicked.connect(self.regenerate_asked if is_reply else self.edit_asked)
        fork = self._button("fork", FORK, "forkChat")
        fork.clicked.connect(self.fork_asked)
        # In words: what to do about a reply that is not whole should be seen at once.
        self._go_on = Button(
            CONTINUE,
            name="continueReply",
            style="flat",
            spoken=CONTINUE_TIP,
            tip=CONTINUE_TIP,
        )
        self._go_on.clicked.connect(self.go_on_asked)
        self._go_on.hide()
        theme.signals().changed.connect(self._draw)
        self._draw()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        # Buttons that come and go are at the open end, so that the others keep their places.
        steady, versions = (self._copy, self._again, fork), (self._before, self._place, self._after)
        widgets: tuple[QWidget, ...]
        if is_reply:
            widgets = (*steady, self._copy_json, self._go_on, *versions)
        else:
            layout.addStretch(1)
            widgets = (*versions, *steady)
        for widget in widgets:
            layout.addWidget(widget)
        if is_reply:
            # Without numbers beside them the buttons stay together at the left.
            layout.addStretch(1)

    def entries(self, parent: QObject) -> list[QAction]:
        """The buttons as entries of a menu; none while they are hidden."""
        layout = self.layout()
        assert layout is not None
        entries: list[QAction] = []
        for place in range(layout.count() if not self.isHidden() else 0):
            item = layout.itemAt(place)
            button = item.widget() if item is not None else None
            if isinstance(button, QAbstractButton) and not button.isHidden():
                entries.append(action(button.accessibleName(), parent, button.click))
                entries[-1].setIcon(button.icon())
                entries[-1].setEnabled(button.isEnabled())
        return entries

    def say_copied(self) -> None:
        """Show for a moment that the message was copied."""
        self._copy.say_copied()

    def say_json_copied(self) -> None:
        """The same of the JSON that the message is."""
        self._copy_json.say_copied()

    def offer_json(self, offered: bool) -> None:
        """Whether the message can be copied as JSON."""
        self._copy_json.setVisible(offered)

    def show_row(self, row: Row) -> None:
        """Which alternative this is, and whether there are others."""
        count = len(row.message.siblings)
        for widget in (self._before, self._place, self._after):
            widget.setVisible(count > 1)
        self._place.setText(place_words(row.place, count))
        set_tip(self._place, version_words(row.place, count))
        self._before.setEnabled(row.sibling(-1) is not None)
        self._after.setEnabled(row.sibling(1) is not None)
        self._go_on.setVisible(row.offers_continue)

    def _draw(self) -> None:
        self._go_on.setIcon(theme.icon("continue"))

    def _button(self, icon: str, words: str, name: str) -> IconButton:
        return IconButton(icon, words, name=name)
