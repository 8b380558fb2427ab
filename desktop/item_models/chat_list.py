"""The chats as a Qt list: title, and what is going on in each.

Renaming in place ends in `rename_asked`; the controller stores it and gives the new list back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from desktop.item_models.plain_text import shortened, tip
from desktop.store.records import Chat

AnyIndex = QModelIndex | QPersistentModelIndex
CHAT_ROLE = Qt.ItemDataRole.UserRole
# More than the widest list shows.
LONGEST_TITLE = 200
_NOWHERE = QModelIndex()


class ChatList(QAbstractListModel):
    """Chats, the one used last first.

    Signals:
        rename_asked(int, str): the user typed another title for a chat.
    """

    rename_asked = Signal(int, str)

    def __init__(self) -> None:
        super().__init__()
        self.chats: list[Chat] = []
        self._busy: dict[int, str] = {}

    def show(self, chats: Sequence[Chat]) -> None:
        if list(chats) == self.chats:
            return
        self.beginResetModel()
        self.chats = list(chats)
        self.endResetModel()

    def set_busy(self, chat: int, words: str) -> None:
        """Say beside a chat what its reply is doing; '' when nothing runs in it."""
        if self._busy.get(chat, "") == words:
            return
        self._busy[chat] = words
        place = self.place_of(chat)
        if place is not None:
            self.dataChanged.emit(self.index(place), self.index(place))

    def place_of(self, chat: int | None) -> int | None:
        return next((at for at, known in enumerate(self.chats) if known.id == chat), None)

    def rowCount(self, parent: AnyIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.chats)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        chat = self.chats[index.row()]
        busy = self._busy.get(chat.id, "")
        match role:
            case Qt.ItemDataRole.DisplayRole:
                # A mark in front is seen in the narrowest list; the words are in the tip.
                title = shortened(chat.title, LONGEST_TITLE)
                return f"\N{BLACK CIRCLE} {title}" if busy else title
            case Qt.ItemDataRole.EditRole:
                return chat.title
            case Qt.ItemDataRole.AccessibleTextRole:
                return f"{chat.title}, {busy}" if busy else chat.title
            case Qt.ItemDataRole.ToolTipRole:
                return tip(f"{chat.title}, {busy}" if busy else chat.title)
            case _:
                return chat.id if role == CHAT_ROLE else None

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        title = " ".join(str(value).split())
        if role != Qt.ItemDataRole.EditRole or not index.isValid() or not title:
            return False
        self.rename_asked.emit(self.chats[index.row()].id, title)
        return True

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        editable = Qt.ItemFlag.ItemIsEditable if index.isValid() else Qt.ItemFlag.NoItemFlags
        return super().flags(index) | editable
