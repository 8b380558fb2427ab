"""Options of a chat: its instructions, and the format of its replies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from core.api.reply_format import ReplyFormat
from desktop.chat.chat import ChatController
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import Frame, column, row
from desktop.widgets.long_text import text_field
from desktop.widgets.plain import Button, Label, ToolButton, action, named, set_tip

INSTRUCTIONS_HEIGHT = 110


class InstructionsPanel(Frame):
    changed = Signal()

    def __init__(self, chat: ChatController) -> None:
        super().__init__("instructions", "panel")
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
