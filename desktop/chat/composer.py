"""Where a message is written: text, pictures, and the one button that sends, or stops the reply.

Knows the draft it shows and never the transcript, so that typing costs the same in a long chat.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData, Qt, QTimer, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from desktop import theme
from desktop.chat.chat import ChatController
from desktop.chat.composer_format import ComposerFormat
from desktop.chat.composer_text import ComposerText
from desktop.chat.draft_size import DraftSize
from desktop.chat.drafts import STORED_AFTER_MS
from desktop.chat.queued_messages import QueuedMessages
from desktop.pictures.draft import Draft
from desktop.pictures.given_data import take_data
from desktop.pictures.picture_files import Refusal, not_added
from desktop.pictures.picture_strip import PictureStrip
from desktop.pictures.pictures import PictureController
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Button, Label, set_tip
from desktop.words.conversation import (
    ADD_PICTURES,
    INSTRUCTIONS_IN_USE,
    QUEUE,
    QUEUE_TIP,
    SEND,
    SEND_SPOKEN,
    SEND_TIP,
    STOP,
    STOP_SPOKEN,
    STOP_TIP,
)
from desktop.words.limit import DRAFT_TIP, draft_words

# Who types on, only stops to think.
PAUSE_MS = 1_000
# From the first key that was not counted, so that it goes on while one types.
COUNTED_AFTER_MS = 250


class Composer(QFrame):
    """The draft of the shown chat.

    Signals:
        choose_pictures_asked(): the button for pictures was pressed.
        open_picture_asked(str): a thumbnail was clicked; the digest of its picture.
        instructions_asked(): show the instructions that go with the message, or hide them.
        schema_asked(): a schema for the replies is to be written.
    """

    instructions_asked = Signal()
    schema_asked = Signal()
    choose_pictures_asked = Signal()
    open_picture_asked = Signal(str)

    def __init__(
        self, chat: ChatController, pictures: PictureController, draft_size: DraftSize
    ) -> None:
        super().__init__()
        self.setObjectName("composer")
        self._draft_size = draft_size
        self._chat = chat
        self._pictures = pictures
        self._draft = Draft()
        self._refusals: list[Refusal] = []
        self._suggested = ""
        self.text = ComposerText()
        self.strip = PictureStrip()
        self.strip.setObjectName("composerPictures")
        self.notice = Label(name="composerNotice", style="warning small", wraps=True)
        self.notice.hide()
        self._add = IconButton("picture", ADD_PICTURES, name="addPictures")
        self._format = ComposerFormat(chat)
        self._format.schema_asked.connect(self.schema_asked)
        self._instructions = IconButton("chat", INSTRUCTIONS_IN_USE, name="composerInstructions")
        self._instructions.clicked.connect(self.instructions_asked)
        self._instructions.hide()
        self._queue = Button(QUEUE, name="queueButton", spoken=QUEUE_TIP, tip=QUEUE_TIP)
        self._send = Button(name="sendButton")
        self._waiting = QueuedMessages()
        self._kept = QTimer(self, singleShot=True, interval=STORED_AFTER_MS)
        self._kept.timeout.connect(self.keep)
        self._tokens = Label(name="composerTokens", style="muted small")
        self._tokens.setAlignment(Qt.AlignmentFlag.AlignRight)
        set_tip(self._tokens, DRAFT_TIP)
        self._counted = QTimer(self, singleShot=True, interval=COUNTED_AFTER_MS)
        self._counted.timeout.connect(lambda: self._draft_size.count(self.text.toPlainText()))
        self._pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._pause.timeout.connect(lambda: self._chat.note_pause(self._draft))
        self._build()
        self._connect()
        self._draw()
        self._take_draft()

    def take_data(self, data: QMimeData) -> None:
        """Take in what was dropped or pasted."""
        self.say("")
        refused = take_data(data, self._draft, self._pictures, self.text)
        if refused:
            self._on_refused(self._draft, (Refusal(said=refused),))
        self.text.setFocus()

    def add_files(self, paths: list[Path]) -> None:
        """Take picture files into the draft."""
        self.say("")
        self._pictures.add_files(self._draft, paths)

    def suggest(self, text: str, instead_of: Container[str]) -> None:
        """Put a question into the field, selected, so that typing takes its place.

        It also takes the place of the last suggestion, whose pictures have these names. Words of
        the user's stay.
        """
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

    def say(self, words: str) -> None:
        """Say beside the field what was not done, and why; '' takes it away.

        Pictures that were not taken are said until the message is sent.
        """
        said = " ".join(each for each in (words, not_added(self._refusals)) if each)
        self.notice.setText(said)
        self.notice.setVisible(bool(said))

    def keep(self) -> None:
        """Have what is typed stored."""
        self._kept.stop()
        self._draft.text = self.text.toPlainText()
        self._chat.keep_draft(self._draft)

    def mark_instructions(self, given: bool) -> None:
        """Show that the model is told more than the message."""
        self._instructions.setVisible(given)

    def set_active(self, active: bool) -> None:
        """Show that a drop would be taken."""
        self.setProperty("active", "true" if active else "false")
        theme.restyle(self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        # The frame looks like one field, so all of it is one.
        self.text.setFocus()
        super().mousePressEvent(event)

    def _build(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(6)
        row.addWidget(self._add, 0, Qt.AlignmentFlag.AlignBottom)
        row.addWidget(self._format.button, 0, Qt.AlignmentFlag.AlignBottom)
        row.addWidget(self._instructions, 0, Qt.AlignmentFlag.AlignBottom)
        row.addWidget(self.text, 1)
        row.addWidget(self._queue, 0, Qt.AlignmentFlag.AlignBottom)
        row.addWidget(self._send, 0, Qt.AlignmentFlag.AlignBottom)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 8, 8)
        layout.setSpacing(6)
        layout.addWidget(self._waiting)
        layout.addWidget(self.strip)
        layout.addWidget(self._format)
        layout.addLayout(row)
        layout.addWidget(self.notice)
        layout.addWidget(self._tokens)
        self.setFocusProxy(self.text)

    def _connect(self) -> None:
        self._send.clicked.connect(self._act)
        self._queue.clicked.connect(self._ask_to_send)
        self._waiting.take_back_asked.connect(self._chat.take_back)
        self._chat.queue.changed.connect(self._show_queue)
        self._chat.queue.typed_wanted.connect(self._read_typed)
        self._chat.queue.given_back.connect(self._on_given_back)
        self._add.clicked.connect(self.choose_pictures_asked)
        self.text.send_asked.connect(self._ask_to_send)
        self.text.textChanged.connect(self._enable)
        self.text.textChanged.connect(self._on_typed)
        self.text.data_given.connect(self.take_data)
        self.text.refused.connect(self.say)
        self.strip.remove_asked.connect(lambda number: self._pictures.remove(self._draft, number))
        self.strip.open_asked.connect(self.open_picture_asked)
        self._pictures.changed.connect(self._on_pictures)
        self._pictures.refused.connect(self._on_refused)
        self._chat.refused.connect(self.say)
        self._chat.draft_changed.connect(self._take_draft)
        self._chat.busy_changed.connect(self._draw)
        self._draft_size.changed.connect(self._show_tokens)
        theme.signals().changed.connect(self._draw)

    def _on_typed(self) -> None:
        if not self._counted.isActive():
            self._counted.start()
        # From the first key that is not stored: who types steadily never stops.
        if not self._kept.isActive():
            self._kept.start()
        self._pause.start()

    def _act(self) -> None:
        if self._chat.running is not None:
            self._chat.stop()
        else:
            self._ask_to_send()
        self.text.setFocus()

    def _ask_to_send(self) -> None:
        self._read_typed()
        self._refusals.clear()
        self.say("")
        self._chat.send()

    def _read_typed(self) -> None:
        self._draft.text = self.text.toPlainText()

    def _on_given_back(self, draft: Draft) -> None:
        if draft is self._draft:
            self._show_draft()

    def _show_queue(self) -> None:
        self._waiting.show_messages(self._draft.queued)

    def _take_draft(self) -> None:
        """Show the draft of the chat on screen, keeping what was typed into the last one."""
        draft = self._chat.draft
        if draft is self._draft:
            return
        if self._kept.isActive():
            self._kept.stop()
            self._draft.text = self.text.toPlainText()
            self._chat.keep_draft(self._draft)
        self._draft = draft
        self._refusals.clear()
        self.say("")
        self._show_draft()

    def _show_draft(self) -> None:
        self.text.setPlainText(self._draft.text)
        self.text.moveCursor(self.text.textCursor().MoveOperation.End)
        self._on_pictures(self._draft)
        self._show_queue()

    def _on_refused(self, draft: Draft, refusals: Sequence[Refusal]) -> None:
        if draft is self._draft:
            self._refusals += refusals
            self.say("")

    def _on_pictures(self, draft: Draft) -> None:
        if draft is self._draft:
            self.strip.show_draft(draft.pictures)
            self._enable()
            self._show_tokens()

    def _show_tokens(self) -> None:
        """How long the message is; what was counted last stays until more is known."""
        size = self._draft_size.size
        if size is None:
            return
        self._tokens.setText(draft_words(size.tokens, size.left))
        style = "muted small" if size.left >= 0 else "warning small"
        if self._tokens.property("class") != style:
            self._tokens.setProperty("class", style)
            theme.restyle(self._tokens)

    def _draw(self) -> None:
        stops = self._chat.running is not None
        self._send.set_words(STOP if stops else SEND)
        self._send.setAccessibleName(STOP_SPOKEN if stops else SEND_SPOKEN)
        set_tip(self._send, STOP_TIP if stops else SEND_TIP)
        self._send.setProperty("class", "" if stops else "primary")
        colour = "text" if stops else "on_accent"
        self._send.setIcon(theme.icon("stop" if stops else "send", colour))
        theme.restyle(self._send)
        self._enable()

    def _enable(self) -> None:
        empty = self.text.document().isEmpty() and not self._draft.pictures
        self._send.setEnabled(self._chat.running is not None or not empty)
        self._queue.setVisible(self._chat.running is not None and not empty)
