"""Options of a chat: its instructions, and the format of its replies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QMenu, QWidget

from core.api.reply_format import ReplyFormat
from desktop import theme
from desktop.chat.chat import ChatController
from desktop.chat.data.reading import Formats, Kind, format_of
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.dialogs import Dialog
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.long_text import text_field
from desktop.widgets.plain import Button, Label, ToolButton, action, named, set_tip

INSTRUCTIONS_HEIGHT = 110


class InstructionsPanel(QFrame):
    """Instructions are in force as they are typed."""

    changed = Signal()

    def __init__(self, chat: ChatController) -> None:
        super().__init__()
        self.setObjectName("instructions")
        self.setProperty("class", "panel")
        self._chat = chat
        self._shown: int | None = None
        self._filling = False
        self.text = text_field("instructionsText", tr("Instructions for the model"))
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


def _chip_words(reply_format: ReplyFormat) -> str:
    match reply_format.kind:
        case "json":
            return tr("Replies: JSON")
        case "json_schema":
            return tr("Replies: JSON with a schema")
        case "choice":
            count = format_count(len(reply_format.choices))
            return tr("Replies: one of {count} choices").format(count=count)
        case "regex":
            return tr("Replies: match a regular expression")
        case _:
            return tr("Replies: follow a grammar")


class ComposerFormat(QWidget):
    """Hidden for free text; the composer places `button`."""

    # A format of this kind is to be written.
    written_asked = Signal(str)

    def __init__(self, chat: ChatController) -> None:
        super().__init__()
        self.setObjectName("composerFormat")
        self._chat = chat
        self.button = IconButton("braces", tr("Format of the replies"), name="replyFormat")
        self.button.clicked.connect(lambda: self._open(self.button))
        self._menu = named(QMenu(self), "replyFormatMenu")
        self._entries: dict[str | None, QAction] = {
            None: self._entry("actionFormatFree", tr("Free text"), lambda: chat.ask_for(None)),
            "json": self._entry("actionFormatJson", tr("JSON"), lambda: chat.ask_for(JSON)),
        }
        for kind, name, words in (
            ("json_schema", "actionFormatSchema", tr("JSON with a schema…")),
            ("choice", "actionFormatChoice", tr("One of several choices…")),
            ("regex", "actionFormatRegex", tr("Regular expression…")),
            ("lark", "actionFormatLark", tr("Lark grammar…")),
        ):
            write = partial(self.written_asked.emit, kind)
            self._entries[kind] = self._entry(name, words, write)
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
        entry = action(said, self, act, name)
        entry.setCheckable(True)
        self._menu.addAction(entry)
        return entry

    def _change(self) -> None:
        form = self._chat.format
        if form is not None and form.kind not in ("json", "calls"):
            self.written_asked.emit(form.kind)
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
            said = _chip_words(form)
            self._chip.set_words(said)
            change = tr("Change the format of the replies")
            self._chip.setAccessibleName(f"{said}. {change}")


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
    """Sentences about a kind of format. `hint` is for the empty field, `good` for a usable text."""

    title: str
    about: str
    spoken: str
    hint: str
    use: str
    good: str
    example: str


def words_of(kind: Kind) -> Words:
    return {"json_schema": _schema, "choice": _choice, "regex": _regex, "lark": _lark}[kind]()


def _schema() -> Words:
    return Words(
        tr("JSON with a schema"),
        tr(
            "From the next message on, replies in this chat are JSON that matches this schema. "
            "Reasoning stays free text."
        ),
        tr("JSON Schema for the replies"),
        tr("Paste or write a JSON Schema"),
        tr("Use the schema"),
        tr("The schema can be used."),
        SCHEMA,
    )


def _choice() -> Words:
    return Words(
        tr("One of several choices"),
        tr(
            "From the next message on, each reply in this chat is exactly one of these lines. "
            "Reasoning stays free text."
        ),
        tr("Choices for the replies, one a line"),
        tr("Write one choice a line"),
        tr("Use the choices"),
        tr("The choices can be used."),
        "yes\nno\ncan't tell\n",
    )


def _regex() -> Words:
    return Words(
        tr("Regular expression"),
        tr(
            "From the next message on, each reply in this chat matches this regular expression as "
            "a whole. Look-around and back references can't be used. Reasoning stays free text."
        ),
        tr("Regular expression for the replies"),
        tr("Paste or write a regular expression"),
        tr("Use the expression"),
        tr("The expression can be used."),
        r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    )


def _lark() -> Words:
    return Words(
        tr("Lark grammar"),
        tr(
            "From the next message on, replies in this chat follow this grammar, from its rule "
            "“start”. Reasoning stays free text."
        ),
        tr("Lark grammar for the replies"),
        tr("Paste or write a Lark grammar"),
        tr("Use the grammar"),
        tr("The grammar can be used."),
        GRAMMAR,
    )


class FormatDialog(Dialog):
    """Can be accepted only with a usable text."""

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
