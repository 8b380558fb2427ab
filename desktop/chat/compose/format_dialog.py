"""The dialog in which the format of replies is written."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from core.api.reply_format import ReplyFormat
from desktop import theme
from desktop.chat.data.formats import Formats, Kind, format_of
from desktop.i18n import tr
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import column, row
from desktop.widgets.long_text import text_field
from desktop.widgets.plain import Label

WIDTH, HEIGHT = 560, 480


SCHEMA = """\
{
  "type": "array",
  "maxItems": 8,
  "items": {
    "type": "object",
    "properties": {
      "shape": {"enum": ["circle", "square", "triangle", "star", "diamond", "cross", "other"]},
      "colour": {"enum": ["red", "yellow", "green", "blue", "other"]},
      "count": {"type": "integer", "minimum": 1, "maximum": 20}
    },
    "required": ["shape", "colour", "count"],
    "additionalProperties": false
  }
}
"""
GRAMMAR = """\
start: finding ("\\n" finding)*
finding: COUNT " " COLOUR " " SHAPE
COUNT: /[1-9][0-9]?/
COLOUR: "red" | "yellow" | "green" | "blue"
SHAPE: "circle" | "square" | "triangle" | "star"
"""
# Shorter pauses are in the middle of a word.
CHECKED_AFTER_MS = 250


class Words(NamedTuple):
    """`hint` is for the empty field, `good` for a usable text."""

    title: str
    about: str
    spoken: str
    hint: str
    use: str
    good: str
    example: str


def words_of(kind: Kind) -> Words:
    match kind:
        case "json_schema":
            return Words(
                tr("JSON with a schema"),
                tr(
                    "From the next message on, replies in this chat are JSON that matches this "
                    "schema. Reasoning stays free text."
                ),
                tr("JSON Schema for the replies"),
                tr("Paste or write a JSON Schema"),
                tr("Use the schema"),
                tr("The schema can be used."),
                SCHEMA,
            )
        case "choice":
            return Words(
                tr("One of several choices"),
                tr(
                    "From the next message on, each reply in this chat is exactly one of these "
                    "lines. Reasoning stays free text."
                ),
                tr("Choices for the replies, one a line"),
                tr("Write one choice a line"),
                tr("Use the choices"),
                tr("The choices can be used."),
                "yes\nno\ncan't tell\n",
            )
        case "regex":
            return Words(
                tr("Regular expression"),
                tr(
                    "From the next message on, each reply in this chat matches this regular "
                    "expression as a whole. Look-around and back references can't be used. "
                    "Reasoning stays free text."
                ),
                tr("Regular expression for the replies"),
                tr("Paste or write a regular expression"),
                tr("Use the expression"),
                tr("The expression can be used."),
                r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
            )
        case _:
            return Words(
                tr("Lark grammar"),
                tr(
                    "From the next message on, replies in this chat follow this grammar, from its "
                    "rule “start”. Reasoning stays free text."
                ),
                tr("Lark grammar for the replies"),
                tr("Paste or write a Lark grammar"),
                tr("Use the grammar"),
                tr("The grammar can be used."),
                GRAMMAR,
            )


class FormatDialog(Dialog):
    def __init__(self, formats: Formats, kind: Kind, text: str, parent: QWidget) -> None:
        words = words_of(kind)
        super().__init__("schemaDialog", words.title, parent)
        self._formats, self._kind, self._words = formats, kind, words
        self.text = text_field("schemaText", words.spoken)
        self.text.setPlaceholderText(words.hint)
        self.text.setFont(theme.fixed_font())
        self.verdict = Label(name="schemaVerdict", style="muted small", wraps=True, selectable=True)
        self._use = self.button("schemaUse", words.use, self.accept, "primary")
        self._use.setEnabled(False)
        self._later = QTimer(self, singleShot=True, interval=CHECKED_AFTER_MS)
        self._later.timeout.connect(self._check)
        self._build()
        self.text.textChanged.connect(self._on_typed)
        self.text.refused.connect(lambda said: self._say(said, bad=True))
        formats.checked.connect(self._on_checked)
        self.text.setPlainText(text)
        self.text.setFocus()

    def format(self) -> ReplyFormat | None:
        return format_of(self._kind, self.text.toPlainText())

    def _build(self) -> None:
        title = Label(self._words.title, style="title")
        about = Label(self._words.about, style="muted", wraps=True)
        example = self.button("schemaExample", tr("Insert an example"), self._insert_example)
        cancel = self.button("schemaCancel", tr("Cancel"), self.reject)
        buttons = row(example, None, cancel, self._use)
        parts = (title, about, self.text, self.verdict, buttons)
        layout = column(*parts, of=self, margins=(20, 16, 20, 16), spacing=8)
        layout.setStretchFactor(self.text, 1)
        self.fit(WIDTH, HEIGHT)

    def _on_typed(self) -> None:
        self._use.setEnabled(False)
        written = not self.text.document().isEmpty()
        self._say(tr("Checking…") if written else "")
        if written:
            self._later.start()
        else:
            self._later.stop()

    def _check(self) -> None:
        # A long text arrives in steps.
        if self.text.is_complete():
            self._formats.check(self._kind, self.text.toPlainText())
        else:
            self._later.start()

    def _on_checked(self, text: str, refusal: str) -> None:
        if self._later.isActive() or text != self.text.toPlainText():
            return
        self._use.setEnabled(not refusal)
        self._say(refusal or self._words.good, bad=bool(refusal))

    def _say(self, said: str, bad: bool = False) -> None:
        self.verdict.setText(said)
        theme.set_class(self.verdict, "warning small" if bad else "muted small")

    def _insert_example(self) -> None:
        self.text.selectAll()
        self.text.put(self._words.example)
        self.text.setFocus()
