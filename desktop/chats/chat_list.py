"""The chats as a Qt list: pinned ones, then the others by day and month, under heads.

What was typed into the search field leaves only titles that match. Renaming in place ends in
`rename_asked`; the controller stores it and gives the new list back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from desktop.store.tables.records import Chat
from desktop.widgets.plain_text import shortened, tip
from desktop.words.chats import FORK, PINNED, THIS_WEEK, TODAY, YESTERDAY, month_words

AnyIndex = QModelIndex | QPersistentModelIndex
CHAT_ROLE = Qt.ItemDataRole.UserRole
# A second line, in lists that have one.
NOTE_ROLE = Qt.ItemDataRole.UserRole + 1
# Whether a chat is a fork of another one.
FORKED_ROLE = Qt.ItemDataRole.UserRole + 2
# More than the widest list shows.
LONGEST_TITLE = 200
DAYS_OF_WEEK = 7
_NOWHERE = QModelIndex()


class ChatList(QAbstractListModel):
    """Chats, the one used last first; a row is a chat or the head of a section.

    Signals:
        rename_asked(int, str): the user typed another title for a chat.
    """

    rename_asked = Signal(int, str)

    def __init__(self) -> None:
        super().__init__()
        self.chats: list[Chat] = []
        self.rows: list[Chat | str] = []
        self.searched = ""
        self._busy: dict[int, str] = {}
        self._places: dict[int, int] = {}
        self._rows_of: dict[int, int] = {}

    def show(self, chats: Sequence[Chat]) -> None:
        self.chats = list(chats)
        self._places = {chat.id: place for place, chat in enumerate(self.chats)}
        self._part()

    def search(self, words: str) -> None:
        """Show only titles that contain this; '' shows all."""
        self.searched = " ".join(words.split()).casefold()
        self._part()

    def set_busy(self, chat: int, words: str) -> None:
        """Say beside a chat what its reply is doing; '' when nothing runs in it."""
        if self._busy.get(chat, "") == words:
            return
        self._busy[chat] = words
        index = self.index_of(chat)
        if index.isValid():
            self.dataChanged.emit(index, index)

    def place_of(self, chat: int | None) -> int | None:
        """Its place among `chats`."""
        return None if chat is None else self._places.get(chat)

    def index_of(self, chat: int | None) -> QModelIndex:
        """Its row; none while it is not shown."""
        row = None if chat is None else self._rows_of.get(chat)
        return QModelIndex() if row is None else self.index(row)

    def chat_at(self, index: AnyIndex) -> Chat | None:
        """The chat of a row; None for a head."""
        row = self.rows[index.row()] if index.isValid() else ""
        return row if isinstance(row, Chat) else None

    def rowCount(self, parent: AnyIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        chat = self.chat_at(index)
        if chat is None:
            return self.rows[index.row()] if role == Qt.ItemDataRole.DisplayRole else None
        busy = self._busy.get(chat.id, "")
        match role:
            case Qt.ItemDataRole.DisplayRole:
                # A mark in front is seen in the narrowest list; the words are in the tip.
                title = shortened(chat.title, LONGEST_TITLE)
                return f"\N{BLACK CIRCLE} {title}" if busy else title
            case Qt.ItemDataRole.EditRole:
                return chat.title
            case Qt.ItemDataRole.AccessibleTextRole:
                return _spoken(chat, busy)
            case Qt.ItemDataRole.ToolTipRole:
                return tip(_spoken(chat, busy))
            case _:
                return {CHAT_ROLE: chat.id, FORKED_ROLE: chat.forked}.get(role)

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        title = " ".join(str(value).split())
        chat = self.chat_at(index)
        if role != Qt.ItemDataRole.EditRole or chat is None or not title:
            return False
        self.rename_asked.emit(chat.id, title)
        return True

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        if self.chat_at(index) is None:
            return Qt.ItemFlag.NoItemFlags
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable

    def _part(self) -> None:
        """Part the chats that match into sections, and show them if that is another list."""
        found = [chat for chat in self.chats if self.searched in chat.title.casefold()]
        rows: list[Chat | str] = []
        for head, chats in sections(found, time.time()).items():
            rows += [head, *chats]
        if rows == self.rows:
            return
        self.beginResetModel()
        self.rows = rows
        self._rows_of = {row.id: at for at, row in enumerate(rows) if isinstance(row, Chat)}
        self.endResetModel()


def _spoken(chat: Chat, busy: str) -> str:
    """A row in words: what its icon and its mark say too."""
    return ", ".join(each for each in (chat.title, FORK if chat.forked else "", busy) if each)


def sections(chats: Sequence[Chat], now: float) -> dict[str, list[Chat]]:
    """Chats by the time of their last use, as the user's clock has it, with pinned ones on top.

    Today, yesterday and the seven days before have heads of their own, then each month has one.
    """
    midnight = datetime.combine(datetime.fromtimestamp(now).date(), datetime.min.time())
    today, yesterday, week = (
        (midnight - timedelta(days=days)).timestamp() for days in (0, 1, DAYS_OF_WEEK)
    )
    # In this order, and months as they come: the chat used last comes first.
    parted: dict[str, list[Chat]] = {PINNED: [], TODAY: [], YESTERDAY: [], THIS_WEEK: []}
    for chat in chats:
        if chat.pinned:
            head = PINNED
        elif chat.used >= today:
            head = TODAY
        elif chat.used >= yesterday:
            head = YESTERDAY
        else:
            head = THIS_WEEK if chat.used >= week else month_words(chat.used)
        parted.setdefault(head, []).append(chat)
    return {head: members for head, members in parted.items() if members}
