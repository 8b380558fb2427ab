"""The deleted chats as a Qt list: title, and until when each can be restored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, Qt

from desktop.chats.chat_list import CHAT_ROLE, LONGEST_TITLE, NOTE_ROLE, AnyIndex
from desktop.store.tables.chats import TRASH_S
from desktop.store.tables.records import Chat
from desktop.widgets.plain_text import shortened, tip
from desktop.words.chats import kept_until

_NOWHERE = QModelIndex()


class TrashList(QAbstractListModel):
    """Deleted chats, the one deleted last first."""

    def __init__(self) -> None:
        super().__init__()
        self.chats: list[Chat] = []

    def show(self, chats: Sequence[Chat]) -> None:
        if list(chats) != self.chats:
            self.beginResetModel()
            self.chats = list(chats)
            self.endResetModel()

    def rowCount(self, parent: AnyIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.chats)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        chat = self.chats[index.row()]
        words = kept_until(chat.deleted + TRASH_S)
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return shortened(chat.title, LONGEST_TITLE)
            case Qt.ItemDataRole.AccessibleTextRole:
                return f"{chat.title}, {words}"
            case Qt.ItemDataRole.ToolTipRole:
                return tip(f"{chat.title}, {words}")
            case _:
                return {CHAT_ROLE: chat.id, NOTE_ROLE: words}.get(role)
