"""The left side: new chat, search over titles, chats or trash."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QFrame, QMenu, QStackedWidget, QWidget

from desktop import theme
from desktop.chats.chat_list import CHAT_ROLE
from desktop.chats.chats import ChatsController
from desktop.chats.folders import FolderMenu, FoldersController, MoveMenu
from desktop.chats.list_views import ChatsView, set_up_chats
from desktop.chats.trash import TrashPage
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.store.tables.records import Chat, Folder
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, Label, action, named
from desktop.widgets.search_field import SearchField


class SideBar(QFrame):
    # Show this chat and focus its composer; None for a new chat.
    open_asked = Signal(object)
    # Show this chat and keep the focus in the list.
    look_asked = Signal(object)
    # Search the messages of all chats for these words.
    search_asked = Signal(str)
    selected = Signal()

    def __init__(self, chats: ChatsController, folders: FoldersController, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("sideBar")
        self._chats, self._folders = chats, folders
        self._following = False
        # The selected folder, and the chat that was shown then.
        self._at_folder: tuple[int | None, int | None] = (None, None)
        self._new = Button(tr("New chat"), name="newChat")
        self._new.clicked.connect(self.new_chat)
        self.search = SearchField("chatSearch", tr("Search titles and #tags"))
        self._search_messages = Button(
            tr("Search messages too"), name="searchMessages", style="flat"
        )
        self._search_messages.hide()
        self.list = ChatsView(chats.chat_list)
        set_up_chats(self.list, "chatList", tr("Chats"), chats.chat_list, self._show_menu)
        self.list.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.DoubleClicked
        )
        self._nothing = Label(name="chatSearchNone", style="muted", wraps=True)
        self._open_trash = Button(name="openTrash", style="flat")
        self.trash = TrashPage(chats.trash)
        self._pages = QStackedWidget()
        self._move = MoveMenu(folders, self)
        self._folder_menu = FolderMenu(folders, self)
        self._menu = self._make_menu()
        self._build()
        self._connect()
        self._draw()
        self._follow()
        self._count_trash()

    @property
    def has_chat(self) -> bool:
        return self._current() is not None

    @property
    def has_selected(self) -> bool:
        """A chat or a folder."""
        return self.list.currentIndex().isValid()

    def rename_current(self) -> None:
        if self.list.currentIndex().isValid():
            self.list.edit(self.list.currentIndex())

    def delete_current(self) -> None:
        row = self._chats.chat_list.at(self.list.currentIndex())
        if isinstance(row, Chat):
            self._chats.delete(row.id)
        elif isinstance(row, Folder):
            self._folders.delete(row.id)

    def pin_current(self) -> None:
        chat = self._current()
        if chat is not None:
            self._chats.pin(chat.id, not chat.pinned)

    def move_current(self) -> None:
        chat = self._current()
        if chat is not None:
            self._move.offer(chat)
            self._move.popup(self._below(self.list.currentIndex()))

    def new_chat(self) -> None:
        """In no folder."""
        self._folders.settings.place_new_chat(None)
        self.open_asked.emit(None)

    def search_chats(self) -> None:
        self.show()
        self._leave_trash()
        self.search.setFocus()
        self.search.selectAll()

    def _current(self) -> Chat | None:
        return self._chats.chat_list.chat_at(self.list.currentIndex())

    def _make_menu(self) -> QMenu:
        menu = named(QMenu(self), "chatMenu")
        menu.aboutToShow.connect(self._fill_menu)
        self._pin: QAction = action(tr("Pin to the top"), menu, self.pin_current)
        menu.addAction(self._pin)
        menu.addMenu(self._move)
        menu.addAction(action(tr("Rename"), menu, self.rename_current))
        menu.addAction(action(tr("Delete"), menu, self.delete_current))
        # Only while the list has the focus: in the composer, Delete deletes a character.
        delete = action(tr("Delete"), self.list, self.delete_current)
        delete.setShortcut(QKeySequence(QKeySequence.StandardKey.Delete))
        delete.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.list.addAction(delete)
        return menu

    def _build(self) -> None:
        self._rename = IconButton("edit", tr("Rename the chat or folder (F2)"), name="renameChat")
        self._rename.clicked.connect(self.rename_current)
        self._delete = IconButton(
            "trash", tr("Delete the chat or folder (Delete)"), name="deleteChat"
        )
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
        self.list.clicked.connect(self._on_clicked)
        self._folder_menu.rename_asked.connect(self._rename_folder)
        self._folder_menu.new_asked.connect(self._new_in)
        self._folders.made.connect(self._rename_folder)
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
        self.trash.restore_asked.connect(chats.bring_back)
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
        items = self._chats.trash.shown
        self._open_trash.setVisible(bool(items))
        self._open_trash.set_words(tr("Trash ({})").format(format_count(len(items))))

    def _show_trash(self) -> None:
        self._pages.setCurrentWidget(self.trash)
        self.trash.list.setFocus()

    def _leave_trash(self) -> None:
        if self._pages.currentWidget() is self.trash:
            self._pages.setCurrentIndex(0)
            self.list.setFocus()

    def _show_menu(self, point: QPoint) -> None:
        row, place = self._chats.chat_list.at(self.list.indexAt(point)), self.list.viewport()
        if isinstance(row, Chat):
            self._menu.popup(place.mapToGlobal(point))
        elif isinstance(row, Folder):
            self._folder_menu.offer(row)
            self._folder_menu.popup(place.mapToGlobal(point))

    def _below(self, index: QModelIndex) -> QPoint:
        return self.list.viewport().mapToGlobal(self.list.visualRect(index).bottomLeft())

    def _rename_folder(self, folder: int) -> None:
        index = self._chats.chat_list.index_of_folder(folder)
        if index.isValid():
            self._leave_trash()
            self.list.setFocus()
            self.list.setCurrentIndex(index)
            self.list.edit(index)

    def _new_in(self, folder: int) -> None:
        self._folders.settings.place_new_chat(self._chats.chat_list.folders.get(folder))
        self.open_asked.emit(None)

    def _fill_menu(self) -> None:
        chat = self._current()
        if chat is not None:
            self._move.offer(chat)
        self._pin.setText(tr("Unpin") if chat is not None and chat.pinned else tr("Pin to the top"))

    def _follow(self) -> None:
        """Select the shown chat, or the folder selected since, without opening it."""
        chats = self._chats.chat_list
        folder, shown = self._at_folder
        index = chats.index_of_folder(folder if shown == self._chats.shown else None)
        if not index.isValid():
            index = chats.index_of(self._chats.shown)
        self._following = True
        self.list.setCurrentIndex(index)
        if not index.isValid():
            self.list.clearSelection()
        self._following = False
        found = bool(chats.shown) or not chats.searched
        none = tr("No title contains \u201c{}\u201d.")
        self._nothing.setText("" if found else none.format(self.search.text().strip()))
        self._nothing.setVisible(not found)
        self._enable()

    def _go_to_found(self) -> None:
        """Select the shown chat if its title matches, else the first match."""
        self.list.setFocus()
        if not self.list.currentIndex().isValid():
            self.list.setCurrentIndex(self._chats.chat_list.first())

    def _on_current(self, index: QModelIndex) -> None:
        self._enable()
        folder, chat = self._chats.chat_list.folder_at(index), index.data(CHAT_ROLE)
        if not self._following:
            self._at_folder = (folder.id if folder else None, self._chats.shown)
        if self._following or chat is None or chat == self._chats.shown:
            return
        pressed = QGuiApplication.mouseButtons() != Qt.MouseButton.NoButton
        by_key = self.list.hasFocus() and not pressed
        (self.look_asked if by_key else self.open_asked).emit(chat)

    def _on_activated(self, index: QModelIndex) -> None:
        chat, folder = index.data(CHAT_ROLE), self._chats.chat_list.folder_at(index)
        if chat is not None:
            self.open_asked.emit(chat)
        elif folder is not None and QGuiApplication.mouseButtons() == Qt.MouseButton.NoButton:
            self._chats.chat_list.turn(folder)

    def _on_clicked(self, index: QModelIndex) -> None:
        folder = self._chats.chat_list.folder_at(index)
        if folder is not None:
            self._chats.chat_list.turn(folder)
