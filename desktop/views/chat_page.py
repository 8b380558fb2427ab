"""The middle of the window: header, conversation or empty page, composer. Takes drops."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from desktop.controllers.window_parts import WindowParts
from desktop.views.composer import Composer
from desktop.views.empty_page import EmptyPage
from desktop.views.header_bar import HeaderBar
from desktop.views.transcript_view import WIDEST_PX, TranscriptView

FIRST_QUESTION = "What is in the picture?"


class ChatPage(QWidget):
    """One column: everything about the shown chat."""

    def __init__(self, parts: WindowParts, samples: Path) -> None:
        super().__init__()
        self.setObjectName("chatPage")
        self.setAcceptDrops(True)
        self._parts = parts
        self.header = HeaderBar(parts.chats, parts.engine)
        self.transcript = TranscriptView(parts.transcript)
        self.empty = EmptyPage(samples)
        self.composer = Composer(parts.chat, parts.pictures)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self.transcript)
        self._build()
        self._connect()
        self._turn()

    def _build(self) -> None:
        bottom = QHBoxLayout()
        bottom.setContentsMargins(24, 4, 24, 16)
        bottom.addStretch(1)
        bottom.addWidget(self.composer, 100)
        bottom.addStretch(1)
        self.composer.setMaximumWidth(WIDEST_PX)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.header)
        layout.addWidget(self._pages, 1)
        layout.addLayout(bottom)

    def _connect(self) -> None:
        chat, transcript = self._parts.chat, self._parts.transcript
        transcript.chat_changed.connect(self._turn)
        transcript.rows_replaced.connect(self._turn)
        self.transcript.edit_asked.connect(chat.edit)
        self.transcript.regenerate_asked.connect(chat.regenerate)
        self.transcript.choose_asked.connect(chat.choose)
        self.empty.sample_asked.connect(self._try_sample)

    def _turn(self) -> None:
        rows = self._parts.transcript.rows
        self._pages.setCurrentWidget(self.transcript if rows else self.empty)

    def _try_sample(self, path: Path) -> None:
        self.composer.add_files([path])
        self.composer.suggest(FIRST_QUESTION)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        data = event.mimeData()
        if data.hasUrls() or data.hasImage() or data.hasText():
            event.acceptProposedAction()
            self.composer.set_active(True)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self.composer.set_active(False)

    def dropEvent(self, event: QDropEvent) -> None:
        self.composer.set_active(False)
        self.composer.take_data(event.mimeData())
        event.acceptProposedAction()
