"""The model of the list of chats."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from PySide6.QtCore import QMimeData, QModelIndex, Qt, Signal

from desktop.i18n import tr
from desktop.numbers import count_of
from desktop.store.tables.fields import LAST_MOMENT
from desktop.store.tables.records import Chat, Folder
from desktop.widgets.plain_text import shortened, tip
from desktop.widgets.two_lines import LONGEST_TITLE, AnyIndex, ListModel

CHAT_ROLE = Qt.ItemDataRole.UserRole
FORKED_ROLE = Qt.ItemDataRole.UserRole + 2
# Of a folder, whether its chats are shown; of a chat, whether it is shown in a folder.
OPEN_ROLE = Qt.ItemDataRole.UserRole + 3
INSIDE_ROLE = Qt.ItemDataRole.UserRole + 4
# A chat that is dragged: its id in decimal digits.
CHAT_MIME = "application/x-waymark-chat"
DAYS_OF_WEEK = 7


class ChatList(ListModel[Chat | Folder | str]):
    """A row is a chat, a folder, or the head of a section."""

    rename_asked = Signal(int, str)
    # By the user, of folders: rename one; fold it or unfold it; move a chat into one, or out of all
    # folders (None).
    folder_rename_asked = Signal(int, str)
    fold_asked = Signal(int, bool)
    move_asked = Signal(int, object)

    def __init__(self) -> None:
        super().__init__()
        self.chats: list[Chat] = []
        self.folders: dict[int, Folder] = {}
        self.searched = ""
        self._busy: dict[int, str] = {}
        self._by_id: dict[int | None, Chat] = {}
        self._rows_of: dict[int, int] = {}

    def show(self, chats: Sequence[Chat], folders: Sequence[Folder] = ()) -> None:
        self.chats = list(chats)
        self.folders = {each.id: each for each in folders}
        self._by_id = {chat.id: chat for chat in self.chats}
        self._show_sections()

    def search(self, words: str) -> None:
        self.searched = " ".join(words.split()).casefold()
        self._show_sections()

    def set_busy(self, chat: int, words: str) -> None:
        """The chat's tip says `words`."""
        if self._busy.get(chat, "") == words:
            return
        self._busy[chat] = words
        index = self.index_of(chat)
        if index.isValid():
            self.dataChanged.emit(index, index)

    def chat_of(self, number: int | None) -> Chat | None:
        return self._by_id.get(number)

    def index_of(self, chat: int | None) -> QModelIndex:
        row = None if chat is None else self._rows_of.get(chat)
        return QModelIndex() if row is None else self.index(row)

    def index_of_folder(self, folder: int | None) -> QModelIndex:
        for at, row in enumerate(self.shown):
            if isinstance(row, Folder) and row.id == folder:
                return self.index(at)
        return QModelIndex()

    def first(self) -> QModelIndex:
        return next(map(self.index_of, self._rows_of), QModelIndex())

    def chat_at(self, index: AnyIndex) -> Chat | None:
        """None for a folder or a head."""
        row = self.at(index)
        return row if isinstance(row, Chat) else None

    def folder_at(self, index: AnyIndex) -> Folder | None:
        row = self.at(index)
        return row if isinstance(row, Folder) else None

    def turn(self, folder: Folder, is_open: bool | None = None) -> None:
        """Fold or unfold, or for None switch. A search shows all matches."""
        folded = not folder.folded if is_open is None else not is_open
        if not self.searched and folded != folder.folded:
            self.fold_asked.emit(folder.id, folded)

    def drop(self, data: QMimeData, index: AnyIndex) -> None:
        """Move a dragged chat into this row's folder, or out of its own."""
        chat = self.chat_of(_dragged(data))
        row = self.at(index)
        folder = row.id if isinstance(row, Folder) else None
        if isinstance(row, Chat) and index.data(INSIDE_ROLE):
            folder = row.folder
        if chat is not None and chat.folder != folder:
            self.move_asked.emit(chat.id, folder)

    def data_of(self, chat: Chat | Folder | str, role: int) -> Any:
        if isinstance(chat, Folder):
            return self._data_of_folder(chat, role)
        if isinstance(chat, str):
            return chat if role == Qt.ItemDataRole.DisplayRole else None
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
                inside = chat.folder in self.folders and not chat.pinned
                own = {CHAT_ROLE: chat.id, FORKED_ROLE: chat.forked, INSIDE_ROLE: inside}
                return own.get(role)

    def _data_of_folder(self, folder: Folder, role: int) -> Any:
        is_open = bool(self.searched) or not folder.folded
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return shortened(folder.name, LONGEST_TITLE)
            case Qt.ItemDataRole.EditRole:
                return folder.name
            case Qt.ItemDataRole.AccessibleTextRole | Qt.ItemDataRole.ToolTipRole:
                count = sum(each.folder == folder.id for each in self.chats)
                state = tr("open") if is_open else tr("closed")
                words = f"{folder.name}, {tr('folder')}, {count_of(count, 'chat')}, {state}"
                return words if role == Qt.ItemDataRole.AccessibleTextRole else tip(words)
            case _:
                return is_open if role == OPEN_ROLE else None

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        title = " ".join(str(value).split())
        row = self.at(index)
        if role != Qt.ItemDataRole.EditRole or not isinstance(row, Chat | Folder) or not title:
            return False
        asked = self.rename_asked if isinstance(row, Chat) else self.folder_rename_asked
        asked.emit(row.id, title)
        return True

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        row, flag = self.at(index), Qt.ItemFlag
        if not isinstance(row, Chat | Folder):
            return flag.NoItemFlags
        usual = super().flags(index) | flag.ItemIsEditable | flag.ItemIsDropEnabled
        return usual | flag.ItemIsDragEnabled if isinstance(row, Chat) else usual

    def mimeTypes(self) -> list[str]:
        return [CHAT_MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        data = QMimeData()
        data.setData(CHAT_MIME, str(indexes[0].data(CHAT_ROLE)).encode())
        return data

    def _show_sections(self) -> None:
        found = [chat for chat in self.chats if self.searched in chat.title.casefold()]
        rows: list[Chat | Folder | str] = []
        for head, chats in sections(found, time.time(), self.folders.values()).items():
            if not isinstance(head, Folder):
                rows += [head, *chats]
            elif not self.searched or chats or self.searched in head.name.casefold():
                rows += [head, *([] if head.folded and not self.searched else chats)]
        if rows == self.shown:
            return
        self._rows_of = {row.id: at for at, row in enumerate(rows) if isinstance(row, Chat)}
        self.reset(rows)


def _spoken(chat: Chat, busy: str) -> str:
    fork = tr("fork") if chat.forked else ""
    return ", ".join(each for each in (chat.title, fork, busy) if each)


def _dragged(data: QMimeData) -> int | None:
    digits = bytes(data.data(CHAT_MIME).data())
    return int(digits) if digits.isdigit() and len(digits) < 20 else None


def sections(
    chats: Sequence[Chat], now: float, folders: Iterable[Folder] = ()
) -> dict[Folder | str, list[Chat]]:
    """Pinned chats, folders, which may be empty, and the others by day or month of their last use
    in local time."""
    midnight = datetime.combine(datetime.fromtimestamp(now).date(), datetime.min.time())
    today, yesterday, week = (
        (midnight - timedelta(days=days)).timestamp() for days in (0, 1, DAYS_OF_WEEK)
    )
    heads = [(today, tr("Today")), (yesterday, tr("Yesterday")), (week, tr("Last 7 days"))]
    # Chats come by their last use, so the months come in order.
    by_id = {each.id: each for each in folders}
    found: dict[Folder | str, list[Chat]] = {tr("Pinned"): []}
    found |= {each: [] for each in by_id.values()}
    found |= {head: [] for _, head in heads}
    for chat in chats:
        if chat.folder in by_id and not chat.pinned:
            found[by_id[chat.folder]].append(chat)
            continue
        month = f"{datetime.fromtimestamp(min(chat.used, LAST_MOMENT)):%B %Y}"
        head = next((head for start, head in heads if chat.used >= start), month)
        found.setdefault(tr("Pinned") if chat.pinned else head, []).append(chat)
    return {head: each for head, each in found.items() if each or isinstance(head, Folder)}
