"""The field that messages are written in, and what edits and inserts messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
    QTextCursor,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from desktop.documents.document_strip import DocumentStrip
from desktop.documents.documents import DocumentController
from desktop.i18n import tr
from desktop.pictures.draft import Draft
from desktop.pictures.given_data import FILE_TYPES, accept_copy, may_take, take_data
from desktop.pictures.picture_files import Refusal, not_added
from desktop.pictures.picture_strip import PictureStrip
from desktop.widgets.dialogs import Dialog
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.long_text import LongText, text_field
from desktop.widgets.plain import Button, Label, named

MOST_LINES_SEEN = 8
# A longer text that is pasted is attached: what is written after it leaves its tokens as they are.
LONG_PASTE = 8_000
# A shorter pause is for thinking.
PAUSE_MS = 1_000


class ComposerText(LongText):
    """Enter sends, Shift+Enter breaks.

    `data_given(QMimeData)`: pictures or files were pasted; `text_given(text)`: a long text, to be
    attached; `undone(number)`: take back an attached text.
    """

    send_asked = Signal()
    left = Signal()
    data_given = Signal(object)
    text_given = Signal(str)
    undone = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        # Attached texts by number: the undo steps before each, and where it was pasted.
        self.attached: dict[int, tuple[int, QTextCursor]] = {}
        self.can_be_left = False  # with Esc
        self.most_lines = MOST_LINES_SEEN
        named(self, "composerText", tr("Message"))
        self.placeholder = tr("Ask a question, or drop a picture or a document")
        self.setTabChangesFocus(True)
        # The column around it takes drops.
        self.setAcceptDrops(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self.verticalScrollBar().rangeChanged.connect(self._fit)
        self.textChanged.connect(self._align)

    def _align(self) -> None:
        """Follow the first line's direction: Qt aligns all lines of a plain text alike."""
        to_left = self.document().firstBlock().textDirection() is Qt.LayoutDirection.RightToLeft
        side = Qt.AlignmentFlag.AlignRight if to_left else Qt.AlignmentFlag.AlignLeft
        option = self.document().defaultTextOption()
        if option.alignment() != side:
            option.setAlignment(side)
            self.document().setDefaultTextOption(option)

    def event(self, event: QEvent) -> bool:
        # Else the window's own Esc, which stops a reply, would have it.
        if self.can_be_left and event.type() == QEvent.Type.ShortcutOverride:
            assert isinstance(event, QKeyEvent)
            if event.key() == Qt.Key.Key_Escape:
                event.accept()
                return True
        return super().event(event)

    def _lines(self) -> int:
        # A plain document's height is counted in lines.
        return max(1, int(self.document().size().height()))

    def _fit(self) -> None:
        self.updateGeometry()
        bar = self.verticalScrollBar()
        # Qt scrolls to the cursor before the field has grown, and counts one line too few.
        if self._lines() <= self.most_lines and bar.maximum() > 0:
            bar.setRange(0, 0)

    def sizeHint(self) -> QSize:
        shown = min(self._lines(), self.most_lines)
        margins = 2 * (int(self.document().documentMargin()) + self.frameWidth()) + 2
        return QSize(super().sizeHint().width(), shown * self.fontMetrics().lineSpacing() + margins)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.sizeHint().height())

    def gave_away(self, text: str) -> bool:
        if len(text) <= LONG_PASTE:
            return False
        self.textCursor().removeSelectedText()
        self.text_given.emit(text)
        return True

    def note_attached(self, number: int) -> None:
        place = self.textCursor()
        place.setKeepPositionOnInsert(True)
        # Else Qt undoes the next letters together with the last.
        self.document().setModified(False)
        self.attached[number] = self.document().availableUndoSteps(), place

    def setPlainText(self, text: str) -> None:
        self.attached.clear()
        super().setPlainText(text)

    def _undo_attached(self) -> bool:
        for number, (steps, _) in reversed(self.attached.items()):
            if steps == self.document().availableUndoSteps():
                self.undone.emit(number)
                return True
        return False

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Undo) and self._undo_attached():
            event.accept()
            return
        modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
        if event.key() == Qt.Key.Key_V and event.modifiers() == modifiers:
            if text := QGuiApplication.clipboard().text():
                self.take_text(text, plain=True)
            event.accept()
            return
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        breaks = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if enter and not breaks:
            self.send_asked.emit()
            event.accept()
            return
        if self.can_be_left and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
            event.accept()
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        room = self.viewport().width() - 2 * int(self.document().documentMargin())
        elided = self.fontMetrics().elidedText(self.placeholder, Qt.TextElideMode.ElideRight, room)
        self.setPlaceholderText(elided)
        self._fit()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return has_files(source) or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        if has_files(source):
            self.data_given.emit(source)
        else:
            super().insertFromMimeData(source)


def has_files(data: QMimeData) -> bool:
    """A copied web address is text."""
    # Pictures copied by this process have an encoded form only.
    pictured = data.hasImage() or any(map(data.hasFormat, FILE_TYPES))
    return pictured or any(url.isLocalFile() for url in data.urls())


class DraftEditor(QFrame):
    """One draft's text, pictures, documents and notice, which subclasses place.

    `open_document_asked(document, choose)`: call `choose` with the places of the parts to read.
    """

    open_document_asked = Signal(object, object)

    def __init__(self, draft: Draft, documents: DocumentController, name: str, add: str) -> None:
        super().__init__()
        self._draft = draft
        self._documents, self._pictures = documents, documents.pictures
        self._refusals: list[Refusal] = []
        # The documents of the draft that are shown, with the parts to read.
        self._read: list[tuple[int, tuple[int, ...]]] = []
        self.text = ComposerText()
        self.strip = named(PictureStrip(), f"{name}Pictures")
        self.documents = DocumentStrip(f"{name}Documents")
        self.notice = Label(name=f"{name}Notice", style="warning small", wraps=True)
        self.notice.hide()
        self.add = IconButton("plus", tr("Add pictures or documents"), name=add)
        self.text.textChanged.connect(self._enable)
        self.text.send_asked.connect(self._ask_to_send)
        self.text.data_given.connect(self.take_data)
        self.text.refused.connect(self.say)
        self.strip.remove_asked.connect(self._remove)
        self.documents.open_asked.connect(self._open_document)
        self.documents.remove_asked.connect(self._remove_document)
        self.documents.text_asked.connect(self._put_as_text)
        self.text.text_given.connect(self._attach_text)
        self.text.undone.connect(self._remove_document)
        self.documents.pages_asked.connect(
            lambda number, keeps: documents.add_as_pictures(self._draft, number, keeps)
        )
        self._pictures.changed.connect(self._on_pictures)
        self._pictures.refused.connect(self._on_refused)
        for changed in (documents.changed, documents.progressed):
            changed.connect(self._on_documents)
        documents.refused.connect(self._on_refused)

    def take_data(self, data: QMimeData) -> None:
        self.say("")
        add_files = self._documents.add_files
        refused = take_data(data, self._draft, self._pictures, add_files, self.text)
        if refused:
            self._on_refused(self._draft, (Refusal(said=refused),))
        self.text.setFocus()

    def add_files(self, paths: list[Path]) -> None:
        self.say("")
        self._documents.add_files(self._draft, paths)

    def say(self, words: str) -> None:
        """Refused pictures are listed too, until the message is sent."""
        self.notice.say("\n".join(filter(None, (words, not_added(self._refusals)))))

    @property
    def empty(self) -> bool:
        return self.text.document().isEmpty() and not (
            self._draft.pictures or self._draft.documents
        )

    def _remove(self, number: int) -> None:
        # The removed picture may have the keyboard focus.
        self.text.setFocus()
        self._pictures.remove(self._draft, number)
        self.say("")

    def _remove_document(self, number: int) -> None:
        self.text.setFocus()
        self.text.attached.pop(number, None)
        self._documents.remove(self._draft, number)

    def _attach_text(self, text: str) -> None:
        self.text.note_attached(self._documents.add_text(self._draft, text))

    def _put_as_text(self, number: int) -> None:
        """Put an attached text where it was pasted, else at the cursor."""
        _, place = self.text.attached.get(number, (0, None))
        for each in self._draft.documents:
            if each.number == number and each.document is not None:
                if place is not None:
                    place.setKeepPositionOnInsert(False)
                    # Its anchor moved with what was typed.
                    place.clearSelection()
                self._remove_document(number)
                self.text.put("".join(each.document.parts), place)

    def _open_document(self, number: int) -> None:
        choose = partial(self._documents.choose, self._draft, number)
        for each in self._draft.documents:
            if each.number == number and each.document is not None:
                self.open_document_asked.emit(each.document, choose)

    def _room(self) -> int | None:
        """Tokens that the documents may have, if known."""
        return self._documents.room

    def _on_documents(self, draft: Draft) -> None:
        if draft is self._draft:
            seconds = {
                each.number: self._documents.seconds(each.document)
                for each in draft.documents
                if each.document is not None
            }
            self.documents.show_draft(draft.documents, seconds, self._room())
            self._enable()
            read = [
                (each.number, each.document.places if each.document else ())
                for each in draft.documents
            ]
            if read != self._read:
                # They may have been too long.
                self._read = read
                self.say("")

    def _on_refused(self, draft: Draft, refusals: Sequence[Refusal]) -> None:
        if draft is self._draft:
            self._refusals += refusals
            self.say("")

    def _on_pictures(self, draft: Draft) -> None:
        if draft is self._draft:
            self.strip.show_draft(draft.pictures)
            self._enable()

    def _enable(self) -> None:
        raise NotImplementedError

    def _ask_to_send(self) -> None:
        raise NotImplementedError


class MessageEditor(DraftEditor):
    """`filled()`: its size has changed."""

    send_asked = Signal(str)
    left = Signal()
    choose_pictures_asked = Signal(object)
    filled = Signal()

    def __init__(self, draft: Draft, documents: DocumentController) -> None:
        super().__init__(draft, documents, "edit", "editAddPictures")
        self.text.can_be_left = True
        named(self.text, "editText", tr("Edit your message"))
        self.text.setProperty("class", "field")
        cancel, send = tr("Cancel"), tr("Send again")
        self._cancel = Button(cancel, name="editCancel", spoken=cancel)
        self.send = Button(send, name="editSend", style="primary", spoken=send)
        self.setAcceptDrops(True)
        buttons = row(self.add, None, self._cancel, self.send)
        column(self.documents, self.strip, self.text, self.notice, buttons, of=self)
        self.text.setPlainText(draft.text)
        self.text.textChanged.connect(self._on_typed)
        self.text.left.connect(self.left)
        self.send.clicked.connect(self._ask_to_send)
        self._cancel.clicked.connect(self.left)
        # The file dialog may outlive these widgets.
        add = partial(documents.add_files, draft)
        self.add.clicked.connect(lambda: self.choose_pictures_asked.emit(add))
        self.strip.filled.connect(self.filled)
        self._on_pictures(draft)
        self._on_documents(draft)

    def say(self, words: str) -> None:
        super().say(words)
        self.filled.emit()

    def _on_typed(self) -> None:
        # A long text arrives in steps.
        if self.text.is_complete():
            self._draft.text = self.text.toPlainText()

    def _enable(self) -> None:
        self.send.setEnabled(self._draft.complete and not self.empty)

    def _ask_to_send(self) -> None:
        if not self._draft.complete:
            self.say(tr("The message can be sent once its files are ready."))
        elif self.text.toPlainText().strip() or self._draft.attachments():
            self.send_asked.emit(self.text.toPlainText())

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        may_take(event)

    def dropEvent(self, event: QDropEvent) -> None:
        self.take_data(event.mimeData())
        accept_copy(event)


INSERT_WIDTH, INSERT_HEIGHT = 560, 420


class InsertDialog(Dialog):
    def __init__(self, parent: QWidget) -> None:
        super().__init__("insertDialog", tr("Insert messages"), parent)
        note = tr("Fill in one or both. Messages after this place are read again.")
        self.question = text_field("insertMessage", tr("Your message"))
        self.answer = text_field("insertReply", tr("Reply"))
        cancel = self.button("insertCancel", tr("Cancel"), self.reject)
        self._use = self.button("insertUse", tr("Insert"), self.accept, "primary")
        fields = (
            Label(tr("Your message"), style="label"),
            (self.question, 1),
            Label(tr("Reply"), style="label"),
            (self.answer, 1),
        )
        buttons = row(None, cancel, self._use)
        head = (Label(tr("Insert messages"), style="title"), Label(note, style="muted", wraps=True))
        column(*head, *fields, buttons, of=self, margins=(20, 16, 20, 16), spacing=8)
        for field in (self.question, self.answer):
            field.textChanged.connect(self._enable)
        self._enable()
        self.fit(INSERT_WIDTH, INSERT_HEIGHT)
        self.question.setFocus()

    def texts(self) -> tuple[str, str]:
        return self.question.toPlainText().strip(), self.answer.toPlainText().strip()

    def _enable(self) -> None:
        fields = (self.question, self.answer)
        complete = all(field.is_complete() for field in fields)
        written = any(not field.document().isEmpty() for field in fields)
        self._use.setEnabled(complete and written)
