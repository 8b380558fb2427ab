"""Asks for the schema of a chat's replies, and says while it is written whether it can be used."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QDialog, QHBoxLayout, QVBoxLayout, QWidget

from desktop import theme
from desktop.chat.formats import Formats
from desktop.widgets.long_text import LongText
from desktop.widgets.plain import Button, Label
from desktop.words import formats as words

WIDTH, HEIGHT = 560, 480
# Who types on, is not done with the word.
CHECKED_AFTER_MS = 250


class SchemaDialog(QDialog):
    """Is accepted with a schema that can be used; another one can't be applied."""

    def __init__(self, formats: Formats, schema: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("schemaDialog")
        self.setWindowTitle(words.SCHEMA)
        self._formats = formats
        self.text = LongText()
        self.text.setObjectName("schemaText")
        self.text.setAccessibleName(words.SCHEMA_SPOKEN)
        self.text.setPlaceholderText(words.SCHEMA_PLACEHOLDER)
        self.text.setProperty("class", "field")
        self.text.setTabChangesFocus(True)
        self.text.setFont(theme.fixed_font())
        self.verdict = Label(name="schemaVerdict", style="muted small", wraps=True, selectable=True)
        self._example = self._button("schemaExample", words.INSERT_EXAMPLE, self._insert_example)
        self._cancel = self._button("schemaCancel", words.CANCEL, self.reject)
        self._use = self._button("schemaUse", words.USE, self.accept)
        self._use.setProperty("class", "primary")
        self._use.setEnabled(False)
        self._later = QTimer(self, singleShot=True, interval=CHECKED_AFTER_MS)
        self._later.timeout.connect(self._check)
        self._build()
        self.text.textChanged.connect(self._on_typed)
        self.text.refused.connect(lambda said: self._say(said, bad=True))
        formats.checked.connect(self._on_checked)
        self.text.setPlainText(schema)
        self.text.setFocus()

    def schema(self) -> str:
        """What stands in the field."""
        return self.text.toPlainText()

    def _build(self) -> None:
        row = QHBoxLayout()
        row.addWidget(self._example)
        row.addStretch(1)
        row.addWidget(self._cancel)
        row.addWidget(self._use)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(8)
        layout.addWidget(Label(words.SCHEMA, style="title"))
        layout.addWidget(Label(words.SCHEMA_NOTE, style="muted", wraps=True))
        layout.addWidget(self.text, 1)
        layout.addWidget(self.verdict)
        layout.addLayout(row)
        self.resize(WIDTH, HEIGHT)

    def _on_typed(self) -> None:
        self._use.setEnabled(False)
        written = not self.text.document().isEmpty()
        self._say(words.CHECKING if written else "")
        if written:
            self._later.start()
        else:
            self._later.stop()

    def _check(self) -> None:
        # A long text comes in steps.
        if self.text.is_complete():
            self._formats.check(self.schema())
        else:
            self._later.start()

    def _on_checked(self, schema: str, refusal: str) -> None:
        if self._later.isActive() or schema != self.schema():
            return
        self._use.setEnabled(not refusal)
        self._say(refusal or words.USABLE, bad=bool(refusal))

    def _say(self, said: str, bad: bool = False) -> None:
        self.verdict.setText(said)
        self.verdict.setProperty("class", "warning small" if bad else "muted small")
        theme.restyle(self.verdict)

    def _insert_example(self) -> None:
        self.text.selectAll()
        self.text.put(words.EXAMPLE)
        self.text.setFocus()

    def _button(self, name: str, said: str, act: object) -> Button:
        button = Button(said, name=name, spoken=said)
        # Enter belongs to the text.
        button.setAutoDefault(False)
        button.clicked.connect(act)
        return button
