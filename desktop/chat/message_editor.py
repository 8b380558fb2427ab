"""A message of the user's while it is edited: its words and pictures, as in the composer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QMimeData, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from desktop.chat.composer_text import ComposerText
from desktop.pictures.draft import Draft
from desktop.pictures.given_data import accept_copy, may_take, take_data
from desktop.pictures.picture_files import Refusal, not_added
from desktop.pictures.picture_strip import PictureStrip
from desktop.pictures.pictures import PictureController
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Button, Label
from desktop.words import pictures as words


class MessageEditor(QWidget):
    """Edits a draft; the message it came from stays as it is.

    Signals:
        send_asked(str): send it in these words.
        left(): the message is to stay as it was.
        open_picture_asked(str): a thumbnail was clicked.
        choose_pictures_asked(object): pictures are to be chosen; called with their paths.
        filled(): it is another size now.
    """

    send_asked = Signal(str)
    left = Signal()
    open_picture_asked = Signal(str)
    choose_pictures_asked = Signal(object)
    filled = Signal()

    def __init__(self, draft: Draft, pictures: PictureController) -> None:
        super().__init__()
        self._draft = draft
        self._pictures = pictures
        self._refusals: list[Refusal] = []
        self.strip = PictureStrip()
        self.strip.setObjectName("editPictures")
        self.text = ComposerText(can_be_left=True)
        self.text.setObjectName("editText")
        self.text.setAccessibleName(words.EDIT)
        self.text.setProperty("class", "field")
        self.text.setPlainText(draft.text)
        self._notice = Label(name="editNotice", style="warning small", wraps=True)
        self._notice.hide()
        self._add = IconButton("picture", words.ADD, name="editAddPictures")
        self._cancel = Button(words.CANCEL, name="editCancel", spoken=words.CANCEL)
        self._send = Button(
            words.SEND_AGAIN, name="editSend", style="primary", spoken=words.SEND_AGAIN
        )
        self.setAcceptDrops(True)
        self._build()
        self._connect()
        self._on_pictures(draft)

    def _build(self) -> None:
        row = QHBoxLayout()
        row.addWidget(self._add)
        row.addStretch(1)
        row.addWidget(self._cancel)
        row.addWidget(self._send)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for part in (self.strip, self.text, self._notice):
            layout.addWidget(part)
        layout.addLayout(row)

    def _connect(self) -> None:
        self.text.textChanged.connect(self._on_typed)
        self.text.send_asked.connect(self._ask_to_send)
        self.text.left.connect(self.left)
        self.text.data_given.connect(self._take_data)
        self.text.refused.connect(self._say)
        self._send.clicked.connect(self._ask_to_send)
        self._cancel.clicked.connect(self.left)
        # The dialog may outlive these widgets.
        add = partial(self._pictures.add_files, self._draft)
        self._add.clicked.connect(lambda: self.choose_pictures_asked.emit(add))
        self.strip.open_asked.connect(self.open_picture_asked)
        self.strip.remove_asked.connect(self._remove)
        self.strip.filled.connect(self.filled)
        self._pictures.changed.connect(self._on_pictures)
        self._pictures.refused.connect(self._on_refused)

    def _on_typed(self) -> None:
        # A long text comes in steps; looking at all of it at each would take long.
        if self.text.is_complete():
            self._draft.text = self.text.toPlainText()
        self._enable()

    def _on_pictures(self, draft: Draft) -> None:
        if draft is self._draft:
            self.strip.show_draft(draft.pictures)
            self._enable()

    def _remove(self, number: int) -> None:
        # The picture may have the keyboard, and goes.
        self.text.setFocus()
        self._pictures.remove(self._draft, number)

    def _on_refused(self, draft: Draft, refusals: Sequence[Refusal]) -> None:
        if draft is self._draft:
            self._refusals += refusals
            self._say(not_added(self._refusals))

    def _take_data(self, data: QMimeData) -> None:
        refused = take_data(data, self._draft, self._pictures, self.text)
        if refused:
            self._on_refused(self._draft, (Refusal(said=refused),))

    def _enable(self) -> None:
        empty = self.text.document().isEmpty() and not self._draft.pictures
        self._send.setEnabled(self._draft.complete and not empty)

    def _say(self, said: str) -> None:
        self._notice.setText(said)
        self._notice.setVisible(bool(said))
        self.filled.emit()

    def _ask_to_send(self) -> None:
        if not self._draft.complete:
            self._say(words.STILL_LOOKING)
        elif self.text.toPlainText().strip() or self._draft.pictures:
            self.send_asked.emit(self.text.toPlainText())

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        may_take(event)

    def dropEvent(self, event: QDropEvent) -> None:
        self._take_data(event.mimeData())
        accept_copy(event)
