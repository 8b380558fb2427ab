"""The trash: restores, and asks before deleting for good."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QListView, QMenu, QWidget

from desktop.chats.chat_list import CHAT_ROLE
from desktop.chats.list_views import set_up_chats
from desktop.i18n import tr
from desktop.numbers import count_of, format_count
from desktop.store.tables.chats import TRASH_DAYS, TRASH_S
from desktop.store.tables.fields import LAST_MOMENT
from desktop.store.tables.records import Chat, DeletedMessages, Trashed
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.notices import Question
from desktop.widgets.plain import Button, Label, action, named
from desktop.widgets.plain_text import shortened, tip
from desktop.widgets.two_lines import LONGEST_TITLE, NOTE_ROLE, ListModel


class TrashList(ListModel[Trashed]):
    """Each item has the day until which it can be restored."""

    @property
    def chats(self) -> list[Chat]:
        return [each for each in self.shown if isinstance(each, Chat)]

    def show(self, items: Sequence[Trashed]) -> None:
        if list(items) != self.shown:
            self.reset(items)

    def data_of(self, item: Trashed, role: int) -> Any:
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


class TrashPage(QWidget):
    left = Signal()
    # Trashed.
    restore_asked = Signal(object)
    # Delete this chat, or these DeletedMessages, for good; None for all of them.
    delete_asked = Signal(object)

    def __init__(self, trash: TrashList) -> None:
        super().__init__()
        self.setObjectName("trashPage")
        self._trash = trash
        self.list = QListView()
        set_up_chats(self.list, "trashList", tr("Trash"), trash, self._show_menu)
        self._menu = named(QMenu(self), "trashMenu")
        self._menu.addAction(action(tr("Restore"), self._menu, self.restore_current))
        self._menu.addAction(
            action(tr("Delete for good"), self._menu, lambda: self._ask_for_current(None))
        )
        self._restore = Button(
            tr("Restore"), name="restoreChat", spoken=tr("Restore the chat to the list")
        )
        self._delete = Button(tr("Delete for good"), name="deleteForGood", style="danger")
        self._delete_all = Button(tr("Delete all for good"), name="deleteAllForGood")
        self.asks = Question(
            self, "deleteTrash", tr("Delete all for good"), tr("Keep"), tr("Delete for good")
        )
        self.asks.kept.connect(self.list.setFocus)
        self.asks.confirmed.connect(lambda: self.delete_asked.emit(self._asked))
        # What the question is about; None for all of it.
        self._asked: int | DeletedMessages | None = None
        self._restore.clicked.connect(self.restore_current)
        self._delete.clicked.connect(lambda: self._ask_for_current(self._delete))
        self._delete_all.clicked.connect(self._ask_for_all)
        self._build()
        trash.modelReset.connect(self._follow)
        self.list.selectionModel().currentChanged.connect(self._on_selected)
        self._follow()

    def restore_current(self) -> None:
        item = self._trash.at(self.list.currentIndex())
        if item is not None:
            self.restore_asked.emit(item)

    def _build(self) -> None:
        back = IconButton("chevron_left", tr("Back to the chats"), name="leaveTrash")
        back.clicked.connect(self.left)
        head = row(back, (Label(tr("Trash"), style="heading"), 1))
        note = tr("Kept for {} days, then deleted for good.").format(TRASH_DAYS)
        said = Label(note, style="muted small", wraps=True)
        buttons = (self._restore, self._delete, self._delete_all)
        column(head, said, (self.list, 1), *buttons, of=self, spacing=8)

    def _follow(self) -> None:
        """Withdraw the question: it was about other chats."""
        self.asks.withdraw()
        if self._trash.shown:
            self.list.setCurrentIndex(self._trash.index(0))
        elif self.isVisible():
            self.left.emit()
        self._enable()

    def _on_selected(self) -> None:
        self.asks.withdraw()
        self._enable()

    def _enable(self) -> None:
        selected = self.list.currentIndex().isValid()
        self._restore.setEnabled(selected)
        self._delete.setEnabled(selected)

    def _ask_for_current(self, trigger: QWidget | None) -> None:
        item = self._trash.at(self.list.currentIndex())
        if item is not None:
            self._asked = item.id if isinstance(item, Chat) else item
            self.asks.ask(_question([item]), trigger)

    def _ask_for_all(self) -> None:
        self._asked = None
        self.asks.ask(_question(self._trash.shown), self._delete_all)

    def _show_menu(self, point: QPoint) -> None:
        if self.list.indexAt(point).isValid():
            self._menu.popup(self.list.viewport().mapToGlobal(point))


def _question(items: Sequence[Trashed]) -> str:
    count = len(items)
    if any(isinstance(each, DeletedMessages) for each in items):
        if count == 1:
            return tr("Delete this for good? It can't be undone.")
        return tr("Delete all {} entries for good? This can't be undone.").format(
            format_count(count)
        )
    if count == 1:
        return tr(
            "Delete this chat for good, with its messages and pictures? This can't be undone."
        )
    return tr(
        "Delete all {} chats for good, with their messages and pictures? This can't be undone."
    ).format(format_count(count))
