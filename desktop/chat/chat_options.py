"""Options of a chat: its instructions, and the format of its replies."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QDialog, QFrame, QMenu, QWidget

from core.api.reply_format import ReplyFormat
from desktop import theme
from desktop.chat.chat import ChatController
from desktop.chat.data.reading import Formats
from desktop.i18n import tr
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.long_text import LongText
from desktop.widgets.plain import Button, Label, ToolButton, action, named, set_tip

INSTRUCTIONS_HEIGHT = 110


def _text_field(name: str, spoken: str) -> LongText:
    field = named(LongText(), name, spoken)
    field.setProperty("class", "field")
    field.setTabChangesFocus(True)
    return field


class InstructionsPanel(QFrame):
    """The shown chat's instructions (its system prompt), in force as they are typed."""

    changed = Signal()

    def __init__(self, chat: ChatController) -> None:
        super().__init__()
        self.setObjectName("instructions")
        self.setProperty("class", "panel")
        self._chat = chat
        self._shown: int | None = None
        self._filling = False
        self.text = _text_field("instructionsText", tr("Instructions for the model"))
        self.text.setPlaceholderText(tr("For example: Answer in short sentences."))
        self.text.setFixedHeight(INSTRUCTIONS_HEIGHT)
        self._note = Label(name="instructionsNote", style="muted small", wraps=True)
        spoken = tr("Close the instructions; they are used with the next message")
        self.done = Button(tr("Done"), name="instructionsSave", spoken=spoken)
        self._build()
        self.text.textChanged.connect(self._on_typed)
        self.text.refused.connect(self._note.setText)
        chat.instructed.connect(self._show)
        chat.transcript.rows_replaced.connect(self._note_cost)
        self.hide()
        self._show()

    def _build(self) -> None:
        heading = Label(tr("Instructions for this chat"), style="heading")
        below = row(self._note, self.done)
        below.setStretchFactor(self._note, 1)
        column(heading, self.text, below, of=self, margins=(0, 6, 0, 10), spacing=6)

    def _show(self) -> None:
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
        # A long text arrives in steps; reading all of it at each would take long.
        if not self._filling and self.text.is_complete():
            self._chat.instruct(self.text.toPlainText())

    def _note_cost(self) -> None:
        note = tr("Read before everything else, starting with your next message.")
        if self._chat.transcript.rows:
            again = tr("If you change them, the whole chat is read again.")
            note = f"{note} {again}"
        self._note.setText(note)


JSON = ReplyFormat(kind="json")


class ComposerFormat(QWidget):
    """The line that names the reply format, hidden for free text; the composer places `button`."""

    schema_asked = Signal()

    def __init__(self, chat: ChatController) -> None:
        super().__init__()
        self.setObjectName("composerFormat")
        self._chat = chat
        self.button = IconButton("braces", tr("Format of the replies"), name="replyFormat")
        self.button.clicked.connect(lambda: self._open(self.button))
        self._menu = named(QMenu(self), "replyFormatMenu")
        schema = tr("JSON with a schema…")
        self._entries = {
            None: self._entry("actionFormatFree", tr("Free text"), lambda: chat.ask_for(None)),
            "json": self._entry("actionFormatJson", tr("JSON"), lambda: chat.ask_for(JSON)),
            "json_schema": self._entry("actionFormatSchema", schema, self.schema_asked.emit),
        }
        self._chip = named(ToolButton(), "formatChip")
        self._chip.setProperty("class", "chip")
        self._chip.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        set_tip(self._chip, tr("Change the format of the replies"))
        self._chip.clicked.connect(self._change)
        self._off = IconButton("close", tr("Switch back to free text"), name="formatOff", pixels=12)
        self._off.clicked.connect(lambda: chat.ask_for(None))
        row(self._chip, self._off, None, of=self, spacing=2)
        chat.format_changed.connect(self._show)
        self._show()

    def menu_shown(self) -> QMenu:
        form = self._chat.format
        for kind, entry in self._entries.items():
            entry.setChecked(kind == (None if form is None else form.kind))
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
            said = tr("Replies: JSON") if form.kind == "json" else tr("Replies: JSON with a schema")
            self._chip.set_words(said)
            change = tr("Change the format of the replies")
            self._chip.setAccessibleName(f"{said}. {change}")


DIALOG_WIDTH, DIALOG_HEIGHT = 560, 480
EXAMPLE = """\
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
# Shorter pauses are in the middle of a word.
CHECKED_AFTER_MS = 250


class SchemaDialog(QDialog):
    """Can be accepted only with a schema that can be used."""

    def __init__(self, formats: Formats, schema: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("schemaDialog")
        self.setWindowTitle(tr("JSON with a schema"))
        self._formats = formats
        self.text = _text_field("schemaText", tr("JSON Schema for the replies"))
        self.text.setPlaceholderText(tr("Paste or write a JSON Schema"))
        self.text.setFont(theme.fixed_font())
        self.verdict = Label(name="schemaVerdict", style="muted small", wraps=True, selectable=True)
        self._example = self._button("schemaExample", tr("Insert an example"), self._insert_example)
        self._cancel = self._button("schemaCancel", tr("Cancel"), self.reject)
        self._use = self._button("schemaUse", tr("Use the schema"), self.accept)
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
        return self.text.toPlainText()

    def _build(self) -> None:
        note = tr(
            "From the next message on, replies in this chat are JSON that matches this schema. "
            "Reasoning stays free text."
        )
        title = Label(tr("JSON with a schema"), style="title")
        about = Label(note, style="muted", wraps=True)
        buttons = row(self._example, None, self._cancel, self._use)
        parts = (title, about, self.text, self.verdict, buttons)
        layout = column(*parts, of=self, margins=(20, 16, 20, 16), spacing=8)
        layout.setStretchFactor(self.text, 1)
        self.resize(DIALOG_WIDTH, DIALOG_HEIGHT)

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
            self._formats.check(self.schema())
        else:
            self._later.start()

    def _on_checked(self, schema: str, refusal: str) -> None:
        if self._later.isActive() or schema != self.schema():
            return
        self._use.setEnabled(not refusal)
        self._say(refusal or tr("The schema can be used."), bad=bool(refusal))

    def _say(self, said: str, bad: bool = False) -> None:
        self.verdict.setText(said)
        theme.set_class(self.verdict, "warning small" if bad else "muted small")

    def _insert_example(self) -> None:
        self.text.selectAll()
        self.text.put(EXAMPLE)
        self.text.setFocus()

    def _button(self, name: str, said: str, act: object) -> Button:
        button = Button(said, name=name, spoken=said)
        # Enter belongs to the text.
        button.setAutoDefault(False)
        button.clicked.connect(act)
        return button
