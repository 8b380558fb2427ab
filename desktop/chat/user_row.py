"""A user's message in the transcript: pictures above the words, and editing in place."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QSizePolicy, QVBoxLayout

from desktop.chat.edits import Edits
from desktop.chat.left_out_line import LeftOutLine
from desktop.chat.message_editor import MessageEditor
from desktop.chat.message_row import SHED_AT_ONCE, MessageRow
from desktop.chat.messages import Row
from desktop.chat.user_text import UserText
from desktop.pictures.picture_strip import PictureStrip


class UserRow(MessageRow):
    """One message of the user.

    Signals:
        edit_asked(int, str): send this message again in these words.
        tell_all_asked(): have the model read the messages above too.
        open_picture_asked(str): a thumbnail was clicked.
        choose_pictures_asked(object): pictures are to be chosen; called with their paths.
        link_asked(str): a link in the text was activated.
    """

    edit_asked = Signal(int, str)
    tell_all_asked = Signal()
    open_picture_asked = Signal(str)
    choose_pictures_asked = Signal(object)
    link_asked = Signal(str)

    def __init__(self, row: Row, edits: Edits, formatted: bool = True) -> None:
        super().__init__(row, "user")
        self._edits = edits
        self._line = LeftOutLine()
        self._line.undo_asked.connect(self.tell_all_asked)
        self._strip = PictureStrip()
        self._strip.setObjectName("messagePictures")
        self._strip.open_asked.connect(self.open_picture_asked)
        self._strip.filled.connect(self._fit)
        self._text = UserText(formatted)
        self._text.link_activated.connect(self.link_asked)
        self._text.laid_out.connect(self._fit)
        self._editor: MessageEditor | None = None
        self._bubble = self._make_bubble()
        self.bar.edit_asked.connect(self._edit)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 4)
        layout.setSpacing(2)
        layout.addWidget(self._line)
        layout.addWidget(self._bubble, 0, Qt.AlignmentFlag.AlignRight)
        layout.addWidget(self.bar)
        self.hides(self.bar)
        self.show_row(row)
        if edits.of(row.id) is not None:
            self._open_editor()

    def show_row(self, row: Row) -> None:
        """Show a message, or the same one among more alternatives."""
        if self.row.text != row.text or self.row is row:
            self._text.set_text(row.text)
        if self.row.message.pictures != row.message.pictures or self.row is row:
            self._strip.show_pictures(row.message.pictures)
            self._strip.setVisible(bool(row.message.pictures) and self._editor is None)
        self.row = row
        self.bar.show_row(row)
        self.notice()
        self._line.setVisible(row.first_in_prompt)
        self._fit()

    def show_formatted(self, formatted: bool) -> None:
        """Render the text's Markdown, or show it as it was typed."""
        self._text.show_formatted(formatted)
        self._text.setVisible(bool(self.row.text) and self._editor is None)
        self._fit()

    def shed(self) -> bool:
        return self._text.shed(SHED_AT_ONCE)

    def is_busy(self) -> bool:
        return self._editor is not None or super().is_busy()

    def _make_bubble(self) -> QFrame:
        bubble = QFrame()
        bubble.setObjectName("userBubble")
        bubble.setProperty("class", "messageBubble")
        bubble.setProperty("role", "user")
        bubble.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        inside = QVBoxLayout(bubble)
        inside.setContentsMargins(14, 9, 14, 9)
        inside.addWidget(self._strip)
        inside.addWidget(self._text)
        return bubble

    def _fit(self) -> None:
        """As wide as the longest line asks for, and no wider than the row."""
        words = self._text.wished_width() + 28
        pictures = sum(each.sizeHint().width() + 8 for each in self._strip.thumbnails()) + 34
        room = max(120, self.width() - 60)
        wanted = max(words if self.row.text else 0, pictures if self.row.message.pictures else 0)
        self._bubble.setFixedWidth(min(room, wanted) if self._editor is None else room)

    def _edit(self) -> None:
        if self._editor is None:
            field = self._open_editor().text
            field.setFocus()
            field.moveCursor(field.textCursor().MoveOperation.End)

    def _open_editor(self) -> MessageEditor:
        """Edit the message in its place, or go on where that was left."""
        editor = MessageEditor(self._edits.begin(self.row.message), self._edits.pictures)
        editor.send_asked.connect(self._send_again)
        editor.left.connect(self._cancel)
        editor.open_picture_asked.connect(self.open_picture_asked)
        editor.choose_pictures_asked.connect(self.choose_pictures_asked)
        editor.filled.connect(self._fit)
        inside = self._bubble.layout()
        assert inside is not None
        inside.addWidget(editor)
        self._editor = editor
        self._text.hide()
        self._strip.hide()
        self._fit()
        return editor

    def _send_again(self, text: str) -> None:
        self._close_editor()
        self.edit_asked.emit(self.row.id, text)

    def _cancel(self) -> None:
        self._edits.end(self.row.id)
        self._close_editor()

    def _close_editor(self) -> None:
        if self._editor is not None:
            self._editor.hide()
            self._editor.deleteLater()
            self._editor = None
        self._text.setVisible(bool(self.row.text))
        self._strip.setVisible(bool(self.row.message.pictures))
        self._fit()

    def resizeEvent(self, event: object) -> None:
        self._fit()
