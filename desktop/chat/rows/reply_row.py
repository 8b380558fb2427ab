"""A reply in the transcript, and its editor."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout

from desktop import theme
from desktop.chat.compose.composer_text import PAUSE_MS, ComposerText
from desktop.chat.data.formats import Formats
from desktop.chat.data.json_body import SOURCE, JsonBody
from desktop.chat.data.reading import Reading
from desktop.chat.drafts import Drafts
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.rows.message_row import MessageRow
from desktop.chat.rows.reply_parts import NumbersLine, ReasoningFold
from desktop.chat.rows.row_actions import RowActions
from desktop.chat.transcript import LiveReply, Row, ending_text
from desktop.i18n import tr
from desktop.pictures.draft import Draft
from desktop.widgets.layouts import column, row
from desktop.widgets.long_text import LongText
from desktop.widgets.plain import Button, Label, named

MOST_LINES_SEEN = 20
# The parts that the user opened: reasoning, numbers, and how many pages of the text.
Unfolded = tuple[bool, bool, int]


class ReplyRow(MessageRow):
    def __init__(self, row: Row, formats: Formats, actions: RowActions, drafts: Drafts) -> None:
        super().__init__(row, "assistant", actions, drafts)
        self._formats = formats
        self._live: LiveReply | None = None
        self._reasoning = ReasoningFold()
        self._body = self._make_body()
        self._status = self._label("replyStatus", "muted small")
        self._ending = self._label("replyEnding", "warning small")
        self._numbers = NumbersLine(self.bar)
        self.bar.again.clicked.connect(lambda: actions.regenerate_asked.emit(self.row.id))
        self.bar.go_on.clicked.connect(lambda: actions.go_on_asked.emit(self.row.id))
        self._build()
        self._show_text()
        self.show_row(row)
        if drafts.edited(row.id) is not None:
            self._open_editor()

    def edit(self) -> None:
        if self._editor is None:
            self._open_editor().text.setFocus()

    def _open_editor(self) -> ReplyEditor:
        editor = self._editor = ReplyEditor(self._drafts.edit(self.row.message))
        editor.save_asked.connect(self._save)
        editor.left.connect(self._cancel)
        editor.typed.connect(lambda text: self._asked.reply_typed.emit(self.row.id, text))
        inside = self.layout()
        assert isinstance(inside, QVBoxLayout)
        inside.insertWidget(inside.indexOf(self._body), editor)
        self._show_parts()
        return editor

    def _show_parts(self) -> None:
        self._body.setVisible(bool(self.row.text) and self._editor is None)

    def show_row(self, row: Row) -> None:
        before, self.row = self.row, row
        if row.live is not self._live:
            self._follow(row.live)
        if row.live is not before.live or row.message is not before.message:
            self._show_text()
        running = row.live is not None
        self._reasoning.set_running(running and bool(row.reasoning) and not row.text)
        if not running:
            self._body.finish()
        self._status.say(row.live.status if row.live else "")
        reply = row.message.reply
        self._ending.say("" if running or reply is None else ending_text(reply))
        ended_well = reply is not None and reply.finish_reason == "stop"
        theme.set_class(self._ending, "muted small" if ended_well else "warning small")
        self._show_numbers()
        self.bar.show_row(row)
        self.bar.setVisible(not running)
        self._numbers.fit()
        self.notice()

    def _follow(self, live: LiveReply | None) -> None:
        if self._live is not None:
            self._live.grown.disconnect(self._grow)
        self._live = live
        if live is not None:
            live.show_arrived()
            live.grown.connect(self._grow)

    def _show_text(self) -> None:
        if self._live is not None:
            # Events that have not been shown yet are in the whole text already.
            self._live.show_arrived()
        row = self.row
        for part, text in ((self._body, row.text), (self._reasoning, row.reasoning)):
            shown = part.text()
            if not shown:
                part.append(text)
            elif shown != text:
                part.set_text(text)
        self._reasoning.setVisible(bool(row.reasoning.strip()))
        self._show_parts()

    def _grow(self, answer: str, reasoning: str) -> None:
        if reasoning:
            self._reasoning.append(reasoning)
            if not reasoning.isspace():
                self._reasoning.show()
        if answer:
            self._body.append(answer)
            self._body.show()
        self._show_numbers()

    def shows_always(self) -> bool:
        return self.row.last or super().shows_always()

    def _show_numbers(self) -> None:
        """Shown from the reply's first token on."""
        live, reply = self.row.live, self.row.message.reply
        begun = self.row.message.created
        if live is not None:
            written = live.stats is not None and live.stats.ttft_s is not None
            self._numbers.show_stats(live.stats if written else None, live.model, begun)
        elif reply is not None:
            self._numbers.show_stats(reply.stats, reply.model, begun)

    def unfolded(self) -> Unfolded:
        return self._reasoning.is_open(), self._numbers.is_open(), self._body.pages()

    def unfold(self, unfolded: Unfolded) -> None:
        reasoning, numbers, pages = unfolded
        self._reasoning.set_open(reasoning)
        self._numbers.set_open(numbers)
        if pages != self._body.pages():
            self._body.show_pages(pages)

    def show_source(self) -> None:
        if isinstance(self._body, JsonBody):
            self._body.show_pages(SOURCE)

    def leave(self) -> None:
        self._follow(None)

    def _make_body(self) -> MarkdownBody | JsonBody:
        form = self.row.message.reply.format if self.row.message.reply else None
        if form is None or form.kind not in ("json", "json_schema"):
            return MarkdownBody()
        data = JsonBody(form)
        data.read_asked.connect(lambda: self._formats.read(self.row.id, data.text(), form))
        self._formats.was_read.connect(self._on_read)
        self._formats.indented.connect(self._on_indented)
        self.bar.copy_json.clicked.connect(lambda: self._formats.indent(self.row.id, data.text()))
        return data

    def _on_read(self, message: int, text: str, reading: Reading) -> None:
        body = self._body
        if message == self.row.id and isinstance(body, JsonBody) and text == body.text():
            body.show_reading(reading)
            self.bar.copy_json.setVisible(body.is_json())
            self._numbers.fit()

    def _on_indented(self, message: int, text: str) -> None:
        if message == self.row.id:
            self.bar.copy_json.copy_text(text)

    def _build(self) -> None:
        parts = (self._reasoning, self._body, self._status, self._ending, self._numbers)
        column(*parts, of=self, margins=(0, 4, 0, 4), spacing=4)
        self.hides(self._numbers.line)

    def _label(self, name: str, style: str) -> Label:
        return Label(name=name, style=style, wraps=True, selectable=True)


class ReplyText(ComposerText):
    """Enter breaks a line, Ctrl+Enter saves."""

    def gave_away(self, text: str) -> bool:
        return False  # A reply has no attachments.

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            LongText.keyPressEvent(self, event)
        else:
            super().keyPressEvent(event)


class ReplyEditor(QFrame):
    save_asked = Signal(str)
    left = Signal()
    # The user paused typing: the text so far.
    typed = Signal(str)

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self._draft = draft
        self.text = ReplyText()
        self.text.can_be_left = True
        self.text.most_lines = MOST_LINES_SEEN
        named(self.text, "editReplyText", tr("Edit the reply"))
        self.text.placeholder = ""
        self.text.setProperty("class", "field")
        cancel, save = tr("Cancel"), tr("Save as a new version")
        self._cancel = Button(cancel, name="editReplyCancel", spoken=cancel)
        self._save = Button(
            save, name="editReplySave", style="primary", spoken=save, tip=tr("Save (Ctrl+Enter)")
        )
        self._notice = Label(name="editReplyNotice", style="warning small", wraps=True)
        self._notice.hide()
        buttons = row(None, self._cancel, self._save)
        column(self.text, self._notice, buttons, of=self, spacing=6)
        self.text.setPlainText(draft.text)
        self._pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._pause.timeout.connect(lambda: self.typed.emit(draft.text))
        self.text.textChanged.connect(self._on_typed)
        self.text.refused.connect(self._notice.say)
        refused = tr("Not added: a reply can't have pictures or documents.")
        self.text.data_given.connect(lambda: self._notice.say(refused))
        self.text.send_asked.connect(self._on_save)
        self._save.clicked.connect(self._on_save)
        self._cancel.clicked.connect(self.left)
        self.text.left.connect(self.left)

    def _on_typed(self) -> None:
        self._notice.say("")
        # A long text arrives in steps; reading all of it at each would take long.
        if self.text.is_complete():
            self._draft.text = self.text.toPlainText()
            self._pause.start()
        self._save.setEnabled(not self.text.document().isEmpty())

    def _on_save(self) -> None:
        if self.text.is_complete() and self.text.toPlainText().strip():
            self.save_asked.emit(self.text.toPlainText())
