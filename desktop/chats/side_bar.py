"""The left side: a button for a new chat, a search over titles, the chats or the trash."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QMenu,
    QStackedWidget,
    QWidget,
)

from desktop import theme
from desktop.chats.chat_list import CHAT_ROLE, set_up
from desktop.chats.chats import ChatsController
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.store.tables.chats import TRASH_DAYS
from desktop.store.tables.records import Chat, DeletedMessages, Trashed
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.notices import Question
from desktop.widgets.plain import Button, Label, action, named
from desktop.widgets.search_field import SearchField


class ChatsView(QListView):
    """A list whose section heads no key selects."""

    def moveCursor(
        self, action: QAbstractItemView.CursorAction, modifiers: Qt.KeyboardModifier
    ) -> QModelIndex:
        to = super().moveCursor(action, modifiers)
        kinds = QAbstractItemView.CursorAction
        if action in (kinds.MoveHome, kinds.MovePageUp) and not _selectable(to):
            # The first row is a head.
            return self.model().index(1, 0)
        return to


def _selectable(index: QModelIndex) -> bool:
    return bool(index.flags() & Qt.ItemFlag.ItemIsSelectable)


class SideBar(QFrame):
    # Show this chat and focus its composer; None for a new chat.
    open_asked = Signal(object)
    # Show this chat and keep the focus in the list.
    look_asked = Signal(object)
    # Search the messages of all chats for these words.
    search_asked = Signal(str)
    selected = Signal()

    def __init__(self, chats: ChatsController) -> None:
        super().__init__()
        self.setObjectName("sideBar")
        self._chats = chats
        self._following = False
        self._new = Button(tr("New chat"), name="newChat")
        self._new.clicked.connect(lambda: self.open_asked.emit(None))
        self.search = SearchField("chatSearch", tr("Search titles"))
        self._search_messages = Button(
            tr("Search messages too"), name="searchMessages", style="flat"
        )
        self._search_messages.hide()
        self.list = ChatsView()
        set_up(self.list, "chatList", tr("Chats"), chats.chat_list, self._show_menu)
        self.list.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.DoubleClicked
        )
        self._nothing = Label(name="chatSearchNone", style="muted", wraps=True)
        self._open_trash = Button(name="openTrash", style="flat")
        self.trash = TrashPage(chats)
        self._pages = QStackedWidget()
        self._menu = self._make_menu()
        self._build()
        self._connect()
        self._draw()
        self._follow()
        self._count_trash()

    @property
    def has_selected(self) -> bool:
        return self._current() is not None

    def rename_current(self) -> None:
        if self.list.currentIndex().isValid():
            self.list.edit(self.list.currentIndex())

    def delete_current(self) -> None:
        chat = self._current()
        if chat is not None:
            self._chats.delete(chat.id)

    def pin_current(self) -> None:
        chat = self._current()
        if chat is not None:
            self._chats.pin(chat.id, not chat.pinned)

    def search_chats(self) -> None:
        self.show()
        self._leave_trash()
        self.search.setFocus()
        self.search.selectAll()

    def _current(self) -> Chat | None:
        return self._chats.chat_list.chat_at(self.list.currentIndex())

    def _make_menu(self) -> QMenu:
        menu = named(QMenu(self), "chatMenu")
        menu.aboutToShow.connect(self._say_pin)
        self._pin: QAction = action(tr("Pin to the top"), menu, self.pin_current)
        menu.addAction(self._pin)
        menu.addAction(action(tr("Rename"), menu, self.rename_current))
        menu.addAction(action(tr("Delete"), menu, self.delete_current))
        # Only while the list has the focus: in the composer, Delete deletes a character.
        delete = action(tr("Delete"), self.list, self.delete_current)
        delete.setShortcut(QKeySequence(QKeySequence.StandardKey.Delete))
        delete.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.list.addAction(delete)
        return menu

    def _build(self) -> None:
        self._rename = IconButton("edit", tr("Rename the chat (F2)"), name="renameChat")
        self._rename.clicked.connect(self.rename_current)
        self._delete = IconButton("trash", tr("Delete the chat (Delete)"), name="deleteChat")
        self._delete.clicked.connect(self.delete_current)
        head = row((Label(tr("Chats"), style="heading"), 1), self._rename, self._delete)
        chats = QWidget()
        found = (self._nothing, (self.list, 1), self._open_trash)
        column(self.search, self._search_messages, head, *found, of=chats, spacing=8)
        self._pages.addWidget(chats)
        self._pages.addWidget(self.trash)
        column(self._new, (self._pages, 1), of=self, margins=(10, 10, 10, 10), spacing=8)

    def _connect(self) -> None:
        chats = self._chats
        chats.shown_changed.connect(self._follow)
        chats.chat_list.modelReset.connect(self._follow)
        chats.trash.modelReset.connect(self._count_trash)
        self.list.selectionModel().currentChanged.connect(self._on_current)
        self.list.activated.connect(self._on_activated)
        self.search.textChanged.connect(chats.chat_list.search)
        # An empty list is not reset, but the message that names the search changes.
        self.search.textChanged.connect(self._follow)
        self.search.textChanged.connect(
            lambda words: self._search_messages.setVisible(bool(words.strip()))
        )
        self._search_messages.clicked.connect(
            lambda: self.search_asked.emit(self.search.text().strip())
        )
        self.search.left.connect(self.list.setFocus)
        self.search.found.connect(self._go_to_found)
        self._open_trash.clicked.connect(self._show_trash)
        self.trash.left.connect(self._leave_trash)
        theme.signals().changed.connect(self._draw)

    def _enable(self) -> None:
        selected = self.has_selected
        self._rename.setEnabled(selected)
        self._delete.setEnabled(selected)
        self.selected.emit()

    def _draw(self) -> None:
        self._new.setIcon(theme.icon("plus"))
        self._open_trash.setIcon(theme.icon("trash", "muted"))

    def _count_trash(self) -> None:
        items, chats = self._chats.trash.items, self._chats.trash.chats
        self._open_trash.setVisible(bool(items))
        words = tr("Deleted chats ({})") if items == chats else tr("Deleted ({})")
        self._open_trash.set_words(words.format(format_count(len(items))))

    def _show_trash(self) -> None:
        self._pages.setCurrentWidget(self.trash)
        self.trash.list.setFocus()

    def _leave_trash(self) -> None:
        if self._pages.currentWidget() is self.trash:
            self._pages.setCurrentIndex(0)
            self.list.setFocus()

    def _show_menu(self, point: QPoint) -> None:
        if self._chats.chat_list.chat_at(self.list.indexAt(point)) is not None:
            self._menu.popup(self.list.viewport().mapToGlobal(point))

    def _say_pin(self) -> None:
        chat = self._current()
        self._pin.setText(tr("Unpin") if chat is not None and chat.pinned else tr("Pin to the top"))

    def _follow(self) -> None:
        """Select the shown chat without asking to open it again."""
        chats = self._chats.chat_list
        index = chats.index_of(self._chats.shown)
        self._following = True
        self.list.setCurrentIndex(index)
        if not index.isValid():
            self.list.clearSelection()
        self._following = False
        found = bool(chats.rows) or not chats.searched
        none = tr("No title contains \u201c{}\u201d.")
        self._nothing.setText("" if found else none.format(self.search.text().strip()))
        self._nothing.setVisible(not found)
        self._enable()

    def _go_to_found(self) -> None:
        """Select the chat on screen if its title matches, else the first that does."""
        self.list.setFocus()
        if not self.list.currentIndex().isValid() and len(self._chats.chat_list.rows) > 1:
            # A head comes first.
            self.list.setCurrentIndex(self._chats.chat_list.index(1))

    def _on_current(self, index: QModelIndex) -> None:
        self._enable()
        chat = index.data(CHAT_ROLE)
        if self._following or chat is None or chat == self._chats.shown:
            return
        pressed = QGuiApplication.mouseButtons() != Qt.MouseButton.NoButton
        by_key = self.list.hasFocus() and not pressed
        (self.look_asked if by_key else self.open_asked).emit(chat)

    def _on_activated(self, index: QModelIndex) -> None:
        chat = index.data(CHAT_ROLE)
        if chat is not None:
            self.open_asked.emit(chat)


class TrashPage(QWidget):
    left = Signal()
    # Delete this chat, or these DeletedMessages, for good; None for all of them.
    delete_asked = Signal(object)

    def __init__(self, chats: ChatsController) -> None:
        super().__init__()
        self.setObjectName("trashPage")
        self._chats = chats
        self.list = QListView()
        set_up(self.list, "trashList", tr("Deleted chats"), chats.trash, self._show_menu)
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
        chats.trash.modelReset.connect(self._follow)
        self.list.selectionModel().currentChanged.connect(self._on_selected)
        self._follow()

    def restore_current(self) -> None:
        item = self._chats.trash.item_at(self.list.currentIndex())
        if isinstance(item, DeletedMessages):
            self._chats.restore_messages(item)
        elif item is not None:
            self._chats.restore(item.id, opened=False)

    def _build(self) -> None:
        back = IconButton("chevron_left", tr("Back to the chats"), name="leaveTrash")
        back.clicked.connect(self.left)
        head = row(back, (Label(tr("Deleted chats"), style="heading"), 1))
        note = tr("Kept for {} days, then deleted for good.").format(TRASH_DAYS)
        said = Label(note, style="muted small", wraps=True)
        buttons = (self._restore, self._delete, self._delete_all)
        column(head, said, (self.list, 1), *buttons, of=self, spacing=8)

    def _follow(self) -> None:
        """Withdraw the question: it was about other chats."""
        self.asks.withdraw()
        if self._chats.trash.items:
            self.list.setCurrentIndex(self._chats.trash.index(0))
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
        item = self._chats.trash.item_at(self.list.currentIndex())
        if item is not None:
            self._asked = item.id if isinstance(item, Chat) else item
            self.asks.ask(_question([item]), trigger)

    def _ask_for_all(self) -> None:
        self._asked = None
        self.asks.ask(_question(self._chats.trash.items), self._delete_all)

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
