"""A reply in the transcript: its reasoning folded, its words, its numbers, its end.

Words are Markdown, or data in a reply that was to be JSON.
"""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QVBoxLayout

from desktop.chat.data.json_body import SOURCE, JsonBody
from desktop.chat.data.reading import Reading
from desktop.chat.formats import Formats
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.message_row import SHED_AT_ONCE, MessageRow
from desktop.chat.messages import Row, ending_words
from desktop.chat.numbers_line import NumbersLine
from desktop.chat.reasoning_fold import ReasoningFold
from desktop.widgets.plain import Label


class ReplyRow(MessageRow):
    """One reply, growing or whole.

    Signals:
        regenerate_asked(int): write another reply beside this one.
        go_on_asked(int): write this one on.
        link_asked(str): a link in the text was activated.
    """

    regenerate_asked = Signal(int)
    go_on_asked = Signal(int)
    link_asked = Signal(str)

    def __init__(self, row: Row, formats: Formats) -> None:
        super().__init__(row, "assistant")
        self._formats = formats
        self._reasoning = ReasoningFold()
        self._body = self._make_body()
        self._status = self._label("replyStatus", "muted small")
        self._ending = self._label("replyEnding", "warning small")
        self._numbers = NumbersLine(self.bar)
        self.bar.regenerate_asked.connect(lambda: self.regenerate_asked.emit(self.row.id))
        self.bar.go_on_asked.connect(lambda: self.go_on_asked.emit(self.row.id))
        self._answer_shown = ""
        self._reasoning_shown = ""
        self._build()
        self.show_row(row)

    def show_row(self, row: Row) -> None:
        """Show the reply as it is now."""
        self.row = row
        self.grow()
        running = row.live is not None
        self._reasoning.set_running(running and bool(row.reasoning) and not row.text)
        if not running:
            self._body.finish()
        self._say(self._status, row.live.status if row.live else "")
        reply = row.message.reply
        self._say(self._ending, "" if running or reply is None else ending_words(reply))
        self._show_numbers()
        self.bar.show_row(row)
        self.bar.setVisible(not running)
        self._numbers.fit()
        self.notice()

    def grow(self) -> None:
        """Show what has arrived since the last look; only the end of a text is new."""
        answer, reasoning = self.row.text, self.row.reasoning
        if answer.startswith(self._answer_shown):
            self._body.append(answer[len(self._answer_shown) :])
        else:
            self._body.set_text(answer)
        if reasoning.startswith(self._reasoning_shown):
            self._reasoning.append(reasoning[len(self._reasoning_shown) :])
        else:
            self._reasoning.set_text(reasoning)
        self._answer_shown, self._reasoning_shown = answer, reasoning
        self._reasoning.setVisible(bool(reasoning.strip()))
        self._body.setVisible(bool(answer))
        self._show_numbers()

    def shows_always(self) -> bool:
        return self.row.last or super().shows_always()

    def _show_numbers(self) -> None:
        """Those of the reply; while it is written, from its first token on."""
        live, reply = self.row.live, self.row.message.reply
        begun = self.row.message.created
        if live is not None:
            written = live.stats is not None and live.stats.ttft_s is not None
            self._numbers.show_stats(live.stats if written else None, live.model, begun)
        elif reply is not None:
            self._numbers.show_stats(reply.stats, reply.model, begun)

    def unfolded(self) -> object:
        now = (self._reasoning.is_open(), self._numbers.is_open(), self._body.pages())
        return None if now == (False, False, 1) else now

    def unfold(self, unfolded: object) -> None:
        match unfolded:
            case (bool(reasoning), bool(numbers), int(pages)):
                self._reasoning.set_open(reasoning)
                self._numbers.set_open(numbers)
                self._body.show_pages(pages)
            case _:
                pass

    def show_words(self) -> None:
        """Show the words as they were written, not a table or a tree of them."""
        if isinstance(self._body, JsonBody):
            self._body.show_pages(SOURCE)

    def is_drawn(self) -> bool:
        return isinstance(self._body, JsonBody) or self._body.is_drawn()

    def shed(self) -> bool:
        return self._body.shed(SHED_AT_ONCE) or self._reasoning.shed(SHED_AT_ONCE)

    def _make_body(self) -> MarkdownBody | JsonBody:
        form = self.row.message.reply.format if self.row.message.reply else None
        if form is None or form.kind not in ("json", "json_schema"):
            body = MarkdownBody()
            body.link_activated.connect(self.link_asked)
            return body
        data = JsonBody(form)
        data.read_asked.connect(lambda: self._formats.read(self.row.id, data.text(), form))
        self._formats.was_read.connect(self._on_read)
        self._formats.indented.connect(self._on_indented)
        self.bar.copy_json_asked.connect(lambda: self._formats.indent(self.row.id, data.text()))
        return data

    def _on_read(self, message: int, text: str, reading: Reading) -> None:
        body = self._body
        if message == self.row.id and isinstance(body, JsonBody) and text == body.text():
            body.show_reading(reading)
            self.bar.offer_json(body.is_json())
            self._numbers.fit()

    def _on_indented(self, message: int, text: str) -> None:
        if message == self.row.id:
            QGuiApplication.clipboard().setText(text)
            self.bar.say_json_copied()

    def _build(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 4)
        layout.setSpacing(4)
        for widget in (self._reasoning, self._body, self._status, self._ending, self._numbers):
            layout.addWidget(widget)
        self.hides(self._numbers.line)

    def _label(self, name: str, style: str) -> Label:
        return Label(name=name, style=style, wraps=True, selectable=True)

    def _say(self, label: Label, words: str) -> None:
        if label.text() != words:
            label.setText(words)
        label.setVisible(bool(words))
