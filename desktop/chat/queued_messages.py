"""The messages that wait for the reply before them, one line each, above the field."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from desktop.pictures.draft import Draft
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import ElidedLabel
from desktop.words.conversation import TAKE_BACK, waiting_message_words


class QueuedMessages(QWidget):
    """Shows them in the order in which they are sent.

    Signals:
        take_back_asked(Draft): put this one back into the field.
    """

    take_back_asked = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("queuedMessages")
        self.setAccessibleName("Queued messages")
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(6, 0, 0, 0)
        self._layout.setSpacing(0)
        self._lines: list[QWidget] = []
        self._shown: list[Draft] = []
        self.hide()

    def show_messages(self, messages: Sequence[Draft]) -> None:
        """Show these in place of what is shown."""
        if self._shown == list(messages):
            return
        for line in self._lines:
            self._layout.removeWidget(line)
            line.hide()
            line.deleteLater()
        self._shown = list(messages)
        self._lines = [self._line(message) for message in messages]
        for line in self._lines:
            self._layout.addWidget(line)
        self.setVisible(bool(messages))

    def _line(self, message: Draft) -> QWidget:
        line = QWidget()
        words = ElidedLabel(name="queuedWords", style="muted small")
        words.set_words(waiting_message_words(message.text, len(message.pictures)))
        back = IconButton("close", TAKE_BACK, name="queuedTakeBack")
        back.clicked.connect(lambda: self.take_back_asked.emit(message))
        row = QHBoxLayout(line)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(words, 1)
        row.addWidget(back)
        return line
