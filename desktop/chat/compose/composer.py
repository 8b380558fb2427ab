"""The composer of messages."""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QImage, QMouseEvent, QResizeEvent

from desktop import theme
from desktop.chat.chat import ChatController
from desktop.chat.compose.chat_options import ComposerFormat
from desktop.chat.compose.composer_text import PAUSE_MS
from desktop.chat.compose.message_editor import DraftEditor
from desktop.chat.context_fill import DraftSize, DraftTokens
from desktop.chat.message_queue import QueuedMessages
from desktop.documents.documents import DocumentController
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.pictures.draft import Draft
from desktop.pictures.given_data import png_bytes
from desktop.pictures.screen_part import can_read_screen
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, Label, set_tip

# From the first key that isn't counted, so that the count is updated while typing.
COUNTED_AFTER_MS = 250
# A narrower composer has no button for the screen.
SCREEN_BUTTON_WIDTH = 520


class Composer(DraftEditor):
    def __init__(
        self, chat: ChatController, documents: DocumentController, draft_size: DraftSize
    ) -> None:
        super().__init__(Draft(), documents, "composer", "addPictures")
        self.setObjectName("composer")
        self._draft_size = draft_size
        self._chat = chat
        self._suggested = ""
        self.format = ComposerFormat(chat)
        self.add_screen = IconButton("screen", tr("Add a part of the screen"), name="addScreen")
        self.add_screen.hide()
        in_use = tr("Instructions are in use: show or hide them")
        self.instructions = IconButton("chat", in_use, name="composerInstructions")
        self.instructions.hide()
        self.thinking = IconButton("thinking", tr("Thinking"), name="thinkingSwitch")
        self.thinking.setCheckable(True)
        self.thinking.clicked.connect(self._switch_thinking)
        self.settings = IconButton("settings", tr("Settings of this chat"), name="chatSettings")
        # It is lit if the chat has any, not while they are shown.
        self.settings.setCheckable(True)
        self.settings.clicked.connect(self._show_options)
        tip = tr("Send this when the reply is complete (Enter)")
        self._queue = Button(tr("Queue"), name="queueButton", spoken=tip, tip=tip)
        self._send = Button(name="sendButton")
        self._waiting = QueuedMessages()
        self._tokens = Label(name="composerTokens", style="muted small")
        self._tokens.setAlignment(Qt.AlignmentFlag.AlignRight)
        tip = tr(
            "Tokens in the message, counted by the model's tokenizer, and how many the context "
            "has left for the reply"
        )
        set_tip(self._tokens, tip)
        self._counted = QTimer(self, singleShot=True, interval=COUNTED_AFTER_MS)
        self._counted.timeout.connect(lambda: self._draft_size.count(self.text.toPlainText()))
        self._pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._pause.timeout.connect(lambda: self._chat.note_pause(self._draft))
        self._build()
        self._connect()
        self._draw()
        self._take_draft()

    def suggest(self, text: str, instead_of: Container[str]) -> None:
        """Replaces an earlier suggestion and its pictures, never the user's text."""
        typed = self.text.toPlainText()
        self.text.setFocus()
        if typed.strip() and typed != self._suggested:
            return
        if typed:
            for picture in self._draft.pictures:
                if picture.name in instead_of:
                    self._pictures.remove(self._draft, picture.number)
        self._suggested = text
        self.text.setPlainText(text)
        self.text.selectAll()

    def quote(self, text: str) -> None:
        typed = self.text.toPlainText()
        lines = "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))
        self.text.moveCursor(self.text.textCursor().MoveOperation.End)
        self.text.put(f"{chr(10) * 2 if typed.strip() else ''}{lines}\n\n")
        self.text.setFocus()

    def add_image(self, image: QImage, name: str) -> None:
        self.say("")
        self._pictures.add_bytes(self._draft, partial(png_bytes, image), name)
        self.text.setFocus()

    def keep(self) -> None:
        """Copy the text into the draft, and store what has changed."""
        text = self.text.toPlainText()
        if text != self._draft.text:
            self._draft.text = text
            self._chat.keep_draft(self._draft)

    def set_active(self, active: bool) -> None:
        self.setProperty("active", "true" if active else "false")
        theme.restyle(self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        # The frame looks like one field.
        self.text.setFocus()
        super().mousePressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # The field needs the room more; the menu has the action too.
        has_room = self.width() >= theme.px(SCREEN_BUTTON_WIDTH)
        self.add_screen.setVisible(has_room and can_read_screen())

    def _build(self) -> None:
        options = self.format.button, self.thinking, self.settings, self.instructions
        buttons = (self.add, self.add_screen, *options), (self._queue, self._send)
        writing = row(*buttons[0], self.text, *buttons[1], spacing=6)
        for button in (*buttons[0], *buttons[1]):
            writing.setAlignment(button, Qt.AlignmentFlag.AlignBottom)
        writing.setStretchFactor(self.text, 1)
        strips = self.documents, self.strip
        parts = (self._waiting, *strips, self.format, writing, self.notice, self._tokens)
        column(*parts, of=self, margins=(10, 8, 8, 8), spacing=6)
        self.setFocusProxy(self.text)

    def _switch_thinking(self, on: bool) -> None:
        self._chat.set_own({**self._chat.own, "thinking": on})

    def _show_options(self) -> None:
        self.settings.setChecked(bool(self._chat.own))
        model, wanted = self._draft_size.model, self._chat.settings.thinking
        self.thinking.setVisible(model is not None and model.thinking_switch)
        # Models that can think do so unless they are told not to.
        self.thinking.setChecked(wanted is not False)
        self.thinking.set_words(
            tr("The model doesn't think before it answers. Switch thinking on")
            if wanted is False
            else tr("The model thinks before it answers. Switch thinking off")
        )

    def _connect(self) -> None:
        self._chat.own_changed.connect(self._show_options)
        self._draft_size.changed.connect(self._show_options)
        self._show_options()
        self._send.clicked.connect(self._act)
        self._queue.clicked.connect(self._ask_to_send)
        self._waiting.take_back_asked.connect(self._chat.take_back)
        self._chat.queue.changed.connect(self._show_queue)
        self._chat.queue.typed_wanted.connect(self.keep)
        self._chat.queue.given_back.connect(self._on_given_back)
        self.text.textChanged.connect(self._on_typed)
        self._chat.refused.connect(self.say)
        self._chat.draft_changed.connect(self._take_draft)
        self._chat.busy_changed.connect(self._draw)
        self._draft_size.changed.connect(self._show_tokens)
        theme.signals().changed.connect(self._draw)

    def _on_typed(self) -> None:
        # A long text arrives in steps.
        if self.text.is_complete():
            self.keep()
        if not self._counted.isActive():
            self._counted.start()
        self._pause.start()

    def _act(self) -> None:
        if self._chat.running is not None:
            self._chat.stop()
        else:
            self._ask_to_send()
        self.text.setFocus()

    def _ask_to_send(self) -> None:
        self.keep()
        self._refusals.clear()
        self.say("")
        self._chat.send()

    def _on_given_back(self, draft: Draft) -> None:
        if draft is self._draft:
            self._show_draft()

    def _show_queue(self) -> None:
        self._waiting.show_messages(self._draft.queued)

    def _take_draft(self) -> None:
        draft = self._chat.draft
        if draft is self._draft:
            return
        if not self.text.is_complete():
            self.keep()
        self._draft = draft
        self._refusals.clear()
        self.say("")
        self._show_draft()

    def _show_draft(self) -> None:
        self.text.setPlainText(self._draft.text)
        self.text.moveCursor(self.text.textCursor().MoveOperation.End)
        self._on_pictures(self._draft)
        self._on_documents(self._draft)
        self._show_queue()

    def _on_pictures(self, draft: Draft) -> None:
        super()._on_pictures(draft)
        self._show_tokens()

    def _on_documents(self, draft: Draft) -> None:
        super()._on_documents(draft)
        self._show_tokens()

    def _room(self) -> int | None:
        return super()._room() if self._chat.place is None else None

    def _show_tokens(self) -> None:
        size = self._draft_size.size
        if self._chat.place is not None:
            # Another tokenizer and another context.
            self._tokens.setText("")
        if size is None:
            return
        self._tokens.setText(size_text(size))
        theme.set_class(self._tokens, "muted small" if size.left >= 0 else "warning small")

    def _draw(self) -> None:
        stops = self._chat.running is not None
        self._send.set_words(tr("Stop") if stops else tr("Send"))
        self._send.setAccessibleName(tr("Stop the reply") if stops else tr("Send the message"))
        set_tip(self._send, tr("Stop the reply (Esc)") if stops else tr("Send (Enter)"))
        colour = "text" if stops else "on_accent"
        self._send.setIcon(theme.icon("stop" if stops else "send", colour))
        theme.set_class(self._send, "" if stops else "primary")
        self._enable()

    def _enable(self) -> None:
        self._send.setEnabled(self._chat.running is not None or not self.empty)
        self._queue.setVisible(self._chat.running is not None and not self.empty)


def size_text(size: DraftTokens) -> str:
    if not size.tokens and size.left >= 0:
        text = tr("1 token left") if size.left == 1 else tr("{left} tokens left")
    elif size.left >= 0:
        text = (
            tr("1 token · {left} left") if size.tokens == 1 else tr("{tokens} tokens · {left} left")
        )
    elif not size.tokens:
        text = (
            tr("1 token more than the context holds")
            if size.left == -1
            else tr("{over} tokens more than the context holds")
        )
    else:
        text = (
            tr("1 token, {over} more than the context has left")
            if size.tokens == 1
            else tr("{tokens} tokens, {over} more than the context has left")
        )
    return text.format(
        tokens=format_count(size.tokens),
        left=format_count(size.left),
        over=format_count(-size.left),
    )
