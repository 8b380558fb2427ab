"""A user's message in the transcript, and editing in place."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QTextCursor
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from desktop import theme
from desktop.chat.compose.message_editor import MessageEditor
from desktop.chat.drafts import Drafts
from desktop.chat.markdown.block_text import INDENT, SHORT_TEXT, BlockText
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.markdown.markdown_body import MarkdownBody, indent_of
from desktop.chat.markdown.text_selection import WholeText, text_selection
from desktop.chat.rows.message_row import MessageRow
from desktop.chat.rows.row_actions import Deed, RowActions
from desktop.chat.transcript import Row
from desktop.documents.document_strip import DocumentStrip
from desktop.i18n import tr
from desktop.pictures.picture_strip import PictureStrip
from desktop.widgets.layouts import Frame, column, row
from desktop.widgets.long_text import LongText
from desktop.widgets.plain import Button, Label, named

# From here on a field is used, which lays out only what is seen.
LONGEST_BLOCK = 8_000
MOST_LINES = 400
LONG_TEXT_HEIGHT = 320
# Letters of a text by which its width is judged.
MEASURED = 4_000
# Around the words of code: its frame, and its head with a button.
CODE_FRAME = 30
NARROWEST_CODE = 160


class UserRow(MessageRow):
    def __init__(self, row: Row, drafts: Drafts, actions: RowActions, formatted: bool) -> None:
        super().__init__(row, "user", actions, drafts)
        self._line = LeftOutLine()
        self._line.undo.clicked.connect(actions.tell_all_asked)
        self._strip = named(PictureStrip(), "messagePictures")
        self._strip.open_asked.connect(actions.open_picture_asked)
        self._strip.filled.connect(self._fit)
        self._documents = DocumentStrip("messageDocuments")
        self._documents.open_asked.connect(self._open_document)
        self._text = UserText(formatted)
        self._text.laid_out.connect(self._fit)
        self._bubble = self._make_bubble()
        self.bar.again.clicked.connect(self.edit)
        parts = (self._line, self._bubble, self.bar)
        layout = column(*parts, of=self, margins=(0, 4, 0, 4), spacing=2)
        layout.setAlignment(self._bubble, Qt.AlignmentFlag.AlignRight)
        self.hides(self.bar)
        self.show_row(row)
        if drafts.edited(row.id) is not None:
            self._open_editor()

    def show_row(self, row: Row) -> None:
        if self.row.text != row.text or self.row is row:
            self._text.set_text(row.text)
        if self.row.message.pictures != row.message.pictures or self.row is row:
            self._strip.show_pictures(row.message.pictures)
        if self.row.message.documents != row.message.documents or self.row is row:
            self._documents.show_documents(row.message.documents)
        self.row = row
        self.bar.show_row(row)
        self.notice()
        self._line.setVisible(row.first_in_prompt)
        self._show_parts()

    def show_formatted(self, formatted: bool) -> None:
        self._text.show_formatted(formatted)
        self._show_parts()

    def _show_parts(self) -> None:
        self._text.setVisible(bool(self.row.text) and self._editor is None)
        self._strip.setVisible(bool(self.row.message.pictures) and self._editor is None)
        self._documents.setVisible(bool(self.row.message.documents) and self._editor is None)
        self._fit()

    def _make_bubble(self) -> QFrame:
        bubble = Frame("userBubble", "messageBubble")
        bubble.setProperty("role", "user")
        bubble.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        column(self._documents, self._strip, self._text, of=bubble, margins=(14, 9, 14, 9))
        return bubble

    def _fit(self) -> None:
        words = self._text.wished_width() + 28
        pictures = sum(each.sizeHint().width() + 8 for each in self._strip.thumbnails()) + 34
        room = max(120, self.width() - 60)
        wanted = max(
            words if self.row.text else 0,
            pictures if self.row.message.pictures else 0,
            self._documents.wished_width() + 40 if self.row.message.documents else 0,
        )
        self._bubble.setFixedWidth(min(room, wanted) if self._editor is None else room)

    def edit(self) -> None:
        if self._editor is None:
            self._open_editor().text.moveCursor(QTextCursor.MoveOperation.End)
        assert isinstance(self._editor, MessageEditor)
        self._editor.text.setFocus()

    def _open_editor(self) -> MessageEditor:
        editor = MessageEditor(self._drafts.edit(self.row.message), self._drafts.documents)
        editor.send_asked.connect(self._save)
        editor.left.connect(self._cancel)
        editor.strip.open_asked.connect(self._asked.open_picture_asked)
        editor.open_document_asked.connect(self._asked.open_document_asked)
        editor.choose_pictures_asked.connect(self._asked.choose_pictures_asked)
        editor.filled.connect(self._fit)
        self._asked.watch(editor.send, Deed("send_again", self.row.id))
        inside = self._bubble.layout()
        assert inside is not None
        inside.addWidget(editor)
        self._editor = editor
        self._show_parts()
        return editor

    def _open_document(self, place: int) -> None:
        self._asked.open_document_asked.emit(self.row.message.documents[place], None)

    def resizeEvent(self, event: object) -> None:
        self._fit()


class UserText(WholeText):
    """Markdown, or as typed; a very long one in a field. `laid_out()`: its width changes."""

    laid_out = Signal()

    def __init__(self, formatted: bool = True) -> None:
        super().__init__()
        self._layout = column(of=self)
        self._shown: QWidget | None = None
        self._formatted = formatted
        self._text = ""

    def set_text(self, text: str) -> None:
        if self._shown is not None:
            self._shown.hide()
            self._shown.deleteLater()
        self._text = text
        is_long = len(text) > LONGEST_BLOCK or text.count("\n") >= MOST_LINES
        if is_long:
            self._shown = _field(text)
        else:
            self._shown = self._body(text) if self._formatted else _block(text)
        named(self._shown, "userLongText" if is_long else "userText", tr("Your message"))
        self._layout.addWidget(self._shown)

    def show_formatted(self, formatted: bool) -> None:
        if formatted != self._formatted:
            self._formatted = formatted
            self.set_text(self._text)

    def wished_width(self) -> int:
        """The width at which no line is broken."""
        if isinstance(self._shown, MarkdownBody):
            return max(map(_width, self._shown.blocks()), default=0)
        if self._shown is None:
            return 0
        if len(self._text) <= SHORT_TEXT:
            return self._shown.sizeHint().width()
        return _measured(self._shown, self._text)

    def event(self, event: QEvent) -> bool:
        handled = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self.laid_out.emit()
        return handled

    def _body(self, text: str) -> MarkdownBody:
        body = MarkdownBody(self, keeps_lines=True)
        body.set_text(text)
        return body


def _width(block: BlockText | CodeBlock) -> int:
    if isinstance(block, CodeBlock):
        measure = QFontMetrics(theme.fixed_font()).horizontalAdvance
        longest = max(map(measure, block.code()[:MEASURED].split("\n")))
        width = max(NARROWEST_CODE, longest + CODE_FRAME)
    else:
        words = block.toPlainText()
        is_short = len(words) <= SHORT_TEXT
        width = block.sizeHint().width() if is_short else _measured(block, words) + INDENT
    return width + indent_of(block)


def _measured(widget: QWidget, text: str) -> int:
    return max(map(widget.fontMetrics().horizontalAdvance, text[:MEASURED].split("\n"))) + 2


def _block(text: str) -> BlockText:
    block = BlockText()
    block.show_plain(text)
    return block


def _field(text: str) -> LongText:
    field = LongText()
    text_selection().watch(field)
    field.setFixedHeight(LONG_TEXT_HEIGHT)
    field.setPlainText(text)
    return field


class LeftOutLine(QWidget):
    """Marks where the prompt begins; a button undoes that."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("leftOutLine")
        words = _Words(
            tr("The model no longer reads the messages above"),
            name="leftOutWords",
            style="muted small",
            wraps=True,
        )
        tip = tr("Have the model read all messages again")
        self.undo = Button(tr("Undo"), name="leftOutUndo", style="flat", spoken=tip, tip=tip)
        lines = _line(), _line()
        parts = (lines[0], words, self.undo, lines[1])
        layout = row(*parts, of=self, margins=(0, 10, 0, 10), spacing=10)
        for line in lines:
            layout.setStretchFactor(line, 1)


class _Words(Label):
    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(self.text()) + 2
        return QSize(width, self.heightForWidth(width))


def _line() -> QFrame:
    line = QFrame()
    line.setProperty("class", "separator")
    return line
