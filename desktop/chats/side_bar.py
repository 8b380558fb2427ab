"""The left side: a new chat, a search over titles, the list of chats, the trash in its place."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QListView,
    QMenu,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from desktop import theme
from desktop.chats.chat_delegate import ChatDelegate
from desktop.chats.chat_list import CHAT_ROLE
from desktop.chats.chats import ChatsController
from desktop.chats.trash_page import TrashPage
from desktop.store.tables.records import Chat
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Button, Label, action
from desktop.widgets.search_field import SearchField
from desktop.words import chats as words


class ChatsView(QListView):
    """A list in whose heads no key ends."""

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
    """The list of chats.

    Signals:
        open_asked(object): show this chat, to write in it; None for a new one.
        look_asked(object): show this chat; whoever goes through the list with keys stays there.
        doomed(object): delete this chat of the trash for good; None for all of them.
        selected(): another chat of the list is selected, or none.
    """

    open_asked = Signal(object)
    look_asked = Signal(object)
    doomed = Signal(object)
    selected = Signal()

    def __init__(self, chats: ChatsController) -> None:
        super().__init__()
        self.setObjectName("sideBar")
        self._chats = chats
        self._following = False
        self._new = Button(words.NEW_CHAT, name="newChat", spoken=words.NEW_CHAT)
        self._new.clicked.connect(lambda: self.open_asked.emit(None))
        self.search = SearchField("chatSearch", words.SEARCH_TITLES)
        self.list = self._make_list()
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
        """True if a chat of the list is selected."""
        return self._current() is not None

    def rename_current(self) -> None:
        """Edit the title of the chat that is selected, in place."""
        if self.list.currentIndex().isValid():
            self.list.edit(self.list.currentIndex())

    def delete_current(self) -> None:
        """Move the chat that is selected to the trash."""
        chat = self._current()
        if chat is not None:
            self._chats.delete(chat.id)

    def pin_current(self) -> None:
        """Pin the chat that is selected, or unpin it."""
        chat = self._current()
        if chat is not None:
            self._chats.pin(chat.id, not chat.pinned)

    def search_chats(self) -> None:
        """Go to the search field, whatever stands in the list's place."""
        self.show()
        self._leave_trash()
        self.search.setFocus()
        self.search.selectAll()

    def _current(self) -> Chat | None:
        return self._chats.chat_list.chat_at(self.list.currentIndex())

    def _make_list(self) -> QListView:
        view = ChatsView()
        view.setObjectName("chatList")
        view.setAccessibleName(words.CHATS)
        view.setModel(self._chats.chat_list)
        view.setItemDelegate(ChatDelegate(view))
        view.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.DoubleClicked
        )
        view.setTextElideMode(Qt.TextElideMode.ElideRight)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Heads are as high as chats: of two thousand rows only those that are seen are asked.
        view.setUniformItemSizes(True)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(self._show_menu)
        return view

    def _make_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setObjectName("chatMenu")
        menu.aboutToShow.connect(self._say_pin)
        self._pin: QAction = action(words.PIN, menu, self.pin_current)
        menu.addAction(self._pin)
        menu.addAction(action(words.RENAME, menu, self.rename_current))
        menu.addAction(action(words.DELETE, menu, self.delete_current))
        # Only while the list has the focus: in the composer, Delete deletes a letter.
        delete = action(words.DELETE, self.list, self.delete_current)
        delete.setShortcut(QKeySequence(QKeySequence.StandardKey.Delete))
        delete.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.list.addAction(delete)
        return menu

    def _build(self) -> None:
        self._rename = IconButton("edit", words.RENAME_CHAT, name="renameChat")
        self._rename.clicked.connect(self.rename_current)
        self._delete = IconButton("trash", words.DELETE_CHAT, name="deleteChat")
        self._delete.clicked.connect(self.delete_current)
        row = QHBoxLayout()
        row.addWidget(Label(words.CHATS, style="heading"), 1)
        row.addWidget(self._rename)
        row.addWidget(self._delete)
        chats = QWidget()
        inside = QVBoxLayout(chats)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(8)
        inside.addWidget(self.search)
        inside.addLayout(row)
        inside.addWidget(self._nothing)
        inside.addWidget(self.list, 1)
        inside.addWidget(self._open_trash)
        self._pages.addWidget(chats)
        self._pages.addWidget(self.trash)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.setSpacing(8)
        layout.addWidget(self._new)
        layout.addWidget(self._pages, 1)

    def _connect(self) -> None:
        chats = self._chats
        chats.shown_changed.connect(self._follow)
        chats.chat_list.modelReset.connect(self._follow)
        chats.trash.modelReset.connect(self._count_trash)
        self.list.selectionModel().currentChanged.connect(self._on_current)
        self.list.activated.connect(self._on_activated)
        self.search.textChanged.connect(chats.chat_list.search)
        # A list that was empty before is not reset; the words that name the search are others.
        self.search.textChanged.connect(self._follow)
        self.search.left.connect(self.list.setFocus)
        self.search.found.connect(self._go_to_found)
        self._open_trash.clicked.connect(self._show_trash)
        self.trash.left.connect(self._leave_trash)
        self.trash.doomed.connect(self.doomed)
        theme.signals().changed.connect(self._draw)

    def _enable(self) -> None:
        """There is something to rename or delete only while a chat is selected."""
        selected = self.has_selected
        self._rename.setEnabled(selected)
        self._delete.setEnabled(selected)
        self.selected.emit()

    def _draw(self) -> None:
        self._new.setIcon(theme.icon("plus"))
        self._open_trash.setIcon(theme.icon("trash", "muted"))

    def _count_trash(self) -> None:
        count = len(self._chats.trash.chats)
        self._open_trash.setVisible(bool(count))
        self._open_trash.set_words(words.trash_row(count))
        self._open_trash.setAccessibleName(words.trash_row(count))

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
        self._pin.setText(words.UNPIN if chat is not None and chat.pinned else words.PIN)

    def _follow(self) -> None:
        """Select the chat that is on screen, without asking to open it again."""
        chats = self._chats.chat_list
        index = chats.index_of(self._chats.shown)
        self._following = True
        self.list.setCurrentIndex(index)
        if not index.isValid():
            self.list.clearSelection()
        self._following = False
        found = bool(chats.rows) or not chats.searched
        self._nothing.setText("" if found else words.no_match(self.search.text().strip()))
        self._nothing.setVisible(not found)
        self._enable()

    def _go_to_found(self) -> None:
        """To the chat on screen if its title matches, else to the first that does."""
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
