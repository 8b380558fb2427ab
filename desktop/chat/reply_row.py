"""A reply in the transcript: folded reasoning, text or data, status, ending and numbers."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from desktop import theme
from desktop.chat.data.json_body import SOURCE, JsonBody
from desktop.chat.data.reading import Formats, Reading
from desktop.chat.drafts import Drafts
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.message_editor import ReplyEditor
from desktop.chat.message_row import MessageRow, RowActions
from desktop.chat.numbers_line import NumbersLine
from desktop.chat.transcript import LiveReply, Row, ending_text
from desktop.i18n import tr
from desktop.widgets.layouts import column
from desktop.widgets.plain import Button, Label, named, set_tip

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
        self._say(self._status, row.live.status if row.live else "")
        reply = row.message.reply
        self._say(self._ending, "" if running or reply is None else ending_text(reply))
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
        """While a reply is in progress, from its first token on."""
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
        """Instead of a table or tree of it."""
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
            QGuiApplication.clipboard().setText(text)
            self.bar.copy_json.say_copied()

    def _build(self) -> None:
        parts = (self._reasoning, self._body, self._status, self._ending, self._numbers)
        column(*parts, of=self, margins=(0, 4, 0, 4), spacing=4)
        self.hides(self._numbers.line)

    def _label(self, name: str, style: str) -> Label:
        return Label(name=name, style=style, wraps=True, selectable=True)

    def _say(self, label: Label, words: str) -> None:
        if label.text() != words:
            label.setText(words)
        label.setVisible(bool(words))


class ReasoningFold(QWidget):
    """Drawn only while shown."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._running = False
        self._body: MarkdownBody | None = None
        self._button = Button(parent=self, name="reasoningToggle", style="flat")
        self._button.setCheckable(True)
        self._button.toggled.connect(self._on_toggled)
        self._frame = named(QFrame(self), "reasoningBody")
        self._frame.hide()
        self._lay_out()
        self._label()
        theme.signals().changed.connect(self._label)

    def append(self, text: str) -> None:
        self._pieces.append(text)
        if self._body is not None:
            self._body.append(text)

    def set_text(self, text: str) -> None:
        self._pieces = [text]
        if self._body is not None:
            self._body.set_text(text)

    def set_running(self, running: bool) -> None:
        if self._running and not running and self._body is not None:
            self._body.finish()
        self._running = running
        self._label()

    def text(self) -> str:
        return "".join(self._pieces)

    def is_open(self) -> bool:
        return self._button.isChecked()

    def set_open(self, is_open: bool) -> None:
        self._button.setChecked(is_open)

    def _on_toggled(self, is_open: bool) -> None:
        if is_open and self._body is None:
            self._body = self._make_body()
        self._frame.setVisible(is_open)
        self._label()

    def _make_body(self) -> MarkdownBody:
        body = MarkdownBody(self._frame)
        self._inner.addWidget(body)
        body.append(self.text())
        if not self._running:
            body.finish()
        return body

    def _label(self) -> None:
        thinking = tr("Thinking…")
        self._button.set_words(thinking if self._running else tr("Thought"))
        arrow = "chevron_down" if self.is_open() else "chevron_right"
        self._button.setIcon(theme.icon(arrow, "muted"))
        self._button.setIconSize(theme.icon_size(14))
        tip = tr("Hide the reasoning") if self.is_open() else tr("Show the reasoning")
        set_tip(self._button, tip)
        self._button.setAccessibleDescription(tip)

    def _lay_out(self) -> None:
        self._inner = column(of=self._frame, margins=(14, 2, 0, 2))
        layout = column(self._button, self._frame, of=self, spacing=4)
        layout.setAlignment(self._button, Qt.AlignmentFlag.AlignLeft)
