"""Editors of drafts and messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QMimeData, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QFrame, QWidget

from desktop.chat.compose.composer_text import ComposerText
from desktop.documents.document_strip import DocumentStrip
from desktop.documents.documents import DocumentController
from desktop.i18n import tr
from desktop.pictures.draft import Draft
from desktop.pictures.given_data import accept_copy, may_take, sort_data
from desktop.pictures.picture_files import Refusal, not_added
from desktop.pictures.picture_strip import PictureStrip
from desktop.widgets.dialogs import Dialog
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.long_text import text_field
from desktop.widgets.plain import Button, Label, named


class DraftEditor(QFrame):
    """A draft's text, pictures, documents and notice, which subclasses place.

    `open_document_asked(document, choose)`: call `choose` with the places of the parts to read.
    """

    open_document_asked = Signal(object, object)

    def __init__(self, draft: Draft, documents: DocumentController, name: str, add: str) -> None:
        super().__init__()
        self._draft = draft
        self._documents, self._pictures = documents, documents.pictures
        self._refusals: list[Refusal] = []
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
        documents.changed.connect(self._on_changed)
        documents.progressed.connect(self._on_documents)

    def take_data(self, data: QMimeData) -> None:
        self.say("")
        given = sort_data(data)
        if given.files:
            self._documents.add_files(self._draft, given.files)
        elif given.read is not None:
            self._pictures.add_bytes(self._draft, given.read, tr("Pasted picture"))
        elif given.text:
            self.text.take_text(given.text)
        elif given.refused:
            self._pictures.refuse(self._draft, Refusal(said=given.refused))
        self.text.setFocus()

    def add_files(self, paths: list[Path]) -> None:
        self.say("")
        self._documents.add_files(self._draft, paths)

    def say(self, words: str) -> None:
        """Also lists refused files, until the message is sent."""
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
        self.text.note_attached(self._documents.add_text(self._draft, text), text)

    def _put_as_text(self, number: int) -> None:
        """Put it where it was pasted, else at the cursor."""
        each, attached = self._draft.document(number), self.text.attached.get(number)
        if each is None or each.document is None:
            return
        if attached is not None:
            attached.place.setKeepPositionOnInsert(False)
            # Its anchor moved with what was typed.
            attached.place.clearSelection()
        self._remove_document(number)
        self.text.put("".join(each.document.parts), attached.place if attached else None)

    def _open_document(self, number: int) -> None:
        each = self._draft.document(number)
        if each is not None and each.document is not None:
            choose = partial(self._documents.choose, self._draft, number)
            self.open_document_asked.emit(each.document, choose)

    def _room(self) -> int | None:
        """Tokens that the documents may have."""
        return self._documents.room

    def _on_changed(self, draft: Draft) -> None:
        if draft is self._draft:
            self._on_documents(draft)
            # They may have been too long.
            self.say("")

    def _on_documents(self, draft: Draft) -> None:
        if draft is self._draft:
            self.documents.show_draft(draft.documents, self._documents.seconds, self._room())
            self._enable()

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
        words = tr("Fill in one or both. Messages after this place are read again.")
        note = Label(words, name="insertNote", style="muted", wraps=True)
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
        head = (Label(tr("Insert messages"), style="title"), note)
        column(*head, *fields, buttons, of=self, margins=(20, 16, 20, 16), spacing=8)
        for field in (self.question, self.answer):
            field.textChanged.connect(self._enable)
            field.refused.connect(note.setText)
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
