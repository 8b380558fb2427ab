"""What the model is told before everything else in this chat: a field, folded away until asked."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from desktop.controllers.chat import ChatController
from desktop.views.plain import Button, Label
from desktop.views.widgets.long_text import LongText

HEIGHT = 110


class Instructions(QFrame):
    """The instructions of the shown chat, called a system prompt elsewhere.

    Signals:
        changed(): there are some now, or none any more.
    """

    changed = Signal()

    def __init__(self, chat: ChatController) -> None:
        super().__init__()
        self.setObjectName("instructions")
        self.setProperty("class", "panel")
        self._chat = chat
        self._shown: tuple[int | None, str] = (None, "")
        self.text = LongText()
        self.text.setObjectName("instructionsText")
        self.text.setAccessibleName("Instructions for the model")
        self.text.setProperty("class", "field")
        self.text.setPlaceholderText("For example: Answer in short sentences.")
        self.text.setTabChangesFocus(True)
        self.text.setFixedHeight(HEIGHT)
        self._note = Label(name="instructionsNote", style="muted small", wraps=True)
        self._save = Button(
            "Use them",
            name="instructionsSave",
            spoken="Use these instructions from the next message on",
        )
        self._build()
        self.text.textChanged.connect(self._enable)
        self.text.refused.connect(self._note.setText)
        self._save.clicked.connect(lambda: chat.instruct(self.text.toPlainText()))
        chat.instructed.connect(self._show)
        chat.transcript.rows_replaced.connect(self._enable)
        self.hide()
        self._show()

    def _build(self) -> None:
        heading = Label("Instructions for this chat", style="heading")
        row = QHBoxLayout()
        row.addWidget(self._note, 1)
        row.addWidget(self._save)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 6, 0, 10)
        layout.setSpacing(6)
        layout.addWidget(heading)
        layout.addWidget(self.text)
        layout.addLayout(row)

    def _show(self) -> None:
        """Show those of the chat on screen; words typed for it and not used yet stay."""
        wanted = (self._chat.transcript.chat, self._chat.instructions)
        if wanted != self._shown:
            self._shown = wanted
            self.text.setPlainText(wanted[1])
        self._enable()
        self.changed.emit()

    def _enable(self) -> None:
        # A long text comes in steps; looking at all of it at each would take long.
        is_whole = self.text.is_complete()
        other = not is_whole or self.text.toPlainText().strip() != self._chat.instructions
        self._save.setEnabled(other)
        words = "Told to the model before everything else, from the next message on."
        if other and self._chat.transcript.rows:
            words += " The whole chat is then read again."
        self._note.setText(words)
