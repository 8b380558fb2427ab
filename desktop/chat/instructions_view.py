"""What stands in the prompt before everything else in this chat: a field, folded away until asked.

What stands in it is in force; there is nothing to press.
"""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from desktop.chat.chat import ChatController
from desktop.widgets.long_text import LongText
from desktop.widgets.plain import Button, Label
from desktop.words import chats as words

HEIGHT = 110


class Instructions(QFrame):
    """The instructions of the shown chat, called a system prompt elsewhere.

    Signals:
        changed(): there are some now, or none any more.
        done(): the user has finished with them.
    """

    changed = Signal()
    done = Signal()

    def __init__(self, chat: ChatController) -> None:
        super().__init__()
        self.setObjectName("instructions")
        self.setProperty("class", "panel")
        self._chat = chat
        self._shown: int | None = None
        self._filling = False
        self.text = LongText()
        self.text.setObjectName("instructionsText")
        self.text.setAccessibleName(words.INSTRUCTIONS_SPOKEN)
        self.text.setProperty("class", "field")
        self.text.setPlaceholderText(words.INSTRUCTIONS_EXAMPLE)
        self.text.setTabChangesFocus(True)
        self.text.setFixedHeight(HEIGHT)
        self._note = Label(name="instructionsNote", style="muted small", wraps=True)
        self._done = Button(words.DONE, name="instructionsSave", spoken=words.INSTRUCTIONS_DONE)
        self._build()
        self.text.textChanged.connect(self._on_typed)
        self.text.refused.connect(self._note.setText)
        self._done.clicked.connect(self.done)
        chat.instructed.connect(self._show)
        chat.transcript.rows_replaced.connect(self._note_cost)
        self.hide()
        self._show()

    def _build(self) -> None:
        heading = Label(words.INSTRUCTIONS, style="heading")
        row = QHBoxLayout()
        row.addWidget(self._note, 1)
        row.addWidget(self._done)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 6, 0, 10)
        layout.setSpacing(6)
        layout.addWidget(heading)
        layout.addWidget(self.text)
        layout.addLayout(row)

    def _show(self) -> None:
        """Show those of the chat on screen, unless they are what stands there."""
        chat = self._chat.transcript.chat
        if chat != self._shown or self.text.is_complete():
            self._shown = chat
            if self.text.toPlainText().strip() != self._chat.instructions:
                self._filling = True
                self.text.setPlainText(self._chat.instructions)
                self._filling = False
        self._note_cost()
        self.changed.emit()

    def _on_typed(self) -> None:
        """What is typed is in force: it is stored as it comes, and used with the next message."""
        # A long text comes in steps; looking at all of it at each would take long.
        if not self._filling and self.text.is_complete():
            self._chat.instruct(self.text.toPlainText())

    def _note_cost(self) -> None:
        self._note.setText(words.instructions_note(bool(self._chat.transcript.rows)))
