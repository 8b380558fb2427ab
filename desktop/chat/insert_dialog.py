"""The dialog that inserts a message, a reply or both into a chat."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QWidget

from desktop.i18n import tr
from desktop.widgets.layouts import column, row
from desktop.widgets.long_text import LongText
from desktop.widgets.plain import Button, Label

WIDTH, HEIGHT = 560, 420


class InsertDialog(QDialog):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("insertDialog")
        self.setWindowTitle(tr("Insert messages"))
        note = tr("Fill in one or both. Messages after this place are read again.")
        self.question = _field("insertMessage", tr("Your message"))
        self.answer = _field("insertReply", tr("Reply"))
        self._cancel = _button("insertCancel", tr("Cancel"))
        self._cancel.clicked.connect(self.reject)
        self._use = _button("insertUse", tr("Insert"))
        self._use.setProperty("class", "primary")
        self._use.clicked.connect(self.accept)
        fields = (
            Label(tr("Your message"), style="label"),
            (self.question, 1),
            Label(tr("Reply"), style="label"),
            (self.answer, 1),
        )
        buttons = row(None, self._cancel, self._use)
        head = (Label(tr("Insert messages"), style="title"), Label(note, style="muted", wraps=True))
        column(*head, *fields, buttons, of=self, margins=(20, 16, 20, 16), spacing=8)
        for field in (self.question, self.answer):
            field.textChanged.connect(self._enable)
        self._enable()
        self.resize(WIDTH, HEIGHT)
        self.question.setFocus()

    def texts(self) -> tuple[str, str]:
        return self.question.toPlainText().strip(), self.answer.toPlainText().strip()

    def _enable(self) -> None:
        fields = (self.question, self.answer)
        complete = all(field.is_complete() for field in fields)
        written = any(not field.document().isEmpty() for field in fields)
        self._use.setEnabled(complete and written)


def _field(name: str, spoken: str) -> LongText:
    field = LongText()
    field.setObjectName(name)
    field.setAccessibleName(spoken)
    field.setProperty("class", "field")
    field.setTabChangesFocus(True)
    return field


def _button(name: str, words: str) -> Button:
    button = Button(words, name=name, spoken=words)
    # Enter belongs to the text.
    button.setAutoDefault(False)
    return button
