"""The lists of chats and of deleted chats: their models, and how their rows are drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QFont, QPainter
from PySide6.QtWidgets import QListView, QStyleOptionViewItem

from desktop import theme
from desktop.i18n import tr
from desktop.numbers import count_of
from desktop.store.tables.chats import TRASH_S
from desktop.store.tables.fields import LAST_MOMENT
from desktop.store.tables.records import Chat, DeletedMessages, Trashed
from desktop.widgets.plain import named
from desktop.widgets.plain_text import shortened, tip
from desktop.widgets.two_lines import (
    ENDS_PX,
    LONGEST_TITLE,
    NOTE_ROLE,
    SIDE_PX,
    AnyIndex,
    TwoLineDelegate,
    small,
    write,
)

CHAT_ROLE = Qt.ItemDataRole.UserRole
FORKED_ROLE = Qt.ItemDataRole.UserRole + 2
DAYS_OF_WEEK = 7
_NOWHERE = QModelIndex()
FORK_PX = 14


class ChatList(QAbstractListModel):
    """Chats that match the search, in sections; a row is a chat or the head of a section."""

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
        self._show_sections()

    def search(self, words: str) -> None:
        self.searched = " ".join(words.split()).casefold()
        self._show_sections()

    def set_busy(self, chat: int, words: str) -> None:
        """The tip says what the reply does."""
        if self._busy.get(chat, "") == words:
            return
        self._busy[chat] = words
        index = self.index_of(chat)
        if index.isValid():
            self.dataChanged.emit(index, index)

    def place_of(self, chat: int | None) -> int | None:
        return None if chat is None else self._places.get(chat)

    def index_of(self, chat: int | None) -> QModelIndex:
        """Its row; none while it is not shown."""
        row = None if chat is None else self._rows_of.get(chat)
        return QModelIndex() if row is None else self.index(row)

    def chat_at(self, index: AnyIndex) -> Chat | None:
        """None for a head."""
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

    def _show_sections(self) -> None:
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
    fork = tr("fork") if chat.forked else ""
    return ", ".join(each for each in (chat.title, fork, busy) if each)


def sections(chats: Sequence[Chat], now: float) -> dict[str, list[Chat]]:
    """Pinned chats, then the others by the day or month of their last use in local time."""
    midnight = datetime.combine(datetime.fromtimestamp(now).date(), datetime.min.time())
    today, yesterday, week = (
        (midnight - timedelta(days=days)).timestamp() for days in (0, 1, DAYS_OF_WEEK)
    )
    heads = [(today, tr("Today")), (yesterday, tr("Yesterday")), (week, tr("Last 7 days"))]
    # Chats come by their last use, so the months come in order.
    found: dict[str, list[Chat]] = {tr("Pinned"): [], **{head: [] for _, head in heads}}
    for chat in chats:
        month = f"{datetime.fromtimestamp(min(chat.used, LAST_MOMENT)):%B %Y}"
        head = next((head for start, head in heads if chat.used >= start), month)
        found.setdefault(tr("Pinned") if chat.pinned else head, []).append(chat)
    return {head: members for head, members in found.items() if members}


class TrashList(QAbstractListModel):
    """Deleted chats and messages, each with the day until which it can be restored."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[Trashed] = []

    @property
    def chats(self) -> list[Chat]:
        return [each for each in self.items if isinstance(each, Chat)]

    def show(self, items: Sequence[Trashed]) -> None:
        if list(items) != self.items:
            self.beginResetModel()
            self.items = list(items)
            self.endResetModel()

    def item_at(self, index: AnyIndex) -> Trashed | None:
        return self.items[index.row()] if index.isValid() else None

    def rowCount(self, parent: AnyIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.items)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        item = self.items[index.row()]
        day = datetime.fromtimestamp(min(item.deleted + TRASH_S, LAST_MOMENT))
        words = tr("Kept until {}").format(f"{day.day} {day:%B}")
        if isinstance(item, DeletedMessages):
            words = f"{count_of(item.count, 'message')}. {words}"
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return shortened(item.title, LONGEST_TITLE)
            case Qt.ItemDataRole.AccessibleTextRole:
                return f"{item.title}, {words}"
            case Qt.ItemDataRole.ToolTipRole:
                return tip(f"{item.title}, {words}")
            case _:
                chat = item.id if isinstance(item, Chat) else item.chat
                return {CHAT_ROLE: chat, NOTE_ROLE: words}.get(role)


def set_up(
    view: QListView,
    name: str,
    spoken: str,
    model: QAbstractItemModel,
    show_menu: Callable[[QPoint], None],
) -> None:
    named(view, name, spoken)
    view.setModel(model)
    view.setItemDelegate(ChatDelegate(view))
    view.setTextElideMode(Qt.TextElideMode.ElideRight)
    view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    # With rows of one height, Qt asks only for the visible ones.
    view.setUniformItemSizes(True)
    view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    view.customContextMenuRequested.connect(show_menu)


class ChatDelegate(TwoLineDelegate):
    def initStyleOption(self, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        super().initStyleOption(option, index)
        if index.data(FORKED_ROLE):
            option.features |= QStyleOptionViewItem.ViewItemFeature.HasDecoration
            option.icon = theme.icon("fork", "muted")
            option.decorationSize = theme.icon_size(FORK_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        if index.data(CHAT_ROLE) is None:
            self._paint_head(painter, option, str(index.data()))
        else:
            super().paint(painter, option, index)

    def _paint_head(self, painter: QPainter, option: QStyleOptionViewItem, words: str) -> None:
        font = small(option.font)
        font.setWeight(QFont.Weight.DemiBold)
        place = option.rect.adjusted(SIDE_PX, 0, -SIDE_PX, -ENDS_PX // 2)
        write(painter, place, font, theme.colours().muted, words, Qt.AlignmentFlag.AlignBottom)
