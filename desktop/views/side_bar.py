"""The left side: a new chat, and the list of chats, renamed in place, deleted with a way back."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QMenu,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from desktop import theme
from desktop.controllers.chats import ChatsController
from desktop.item_models.chat_list import CHAT_ROLE, LONGEST_TITLE, AnyIndex
from desktop.views.plain import Button, Label, action
from desktop.views.widgets.icon_button import IconButton


class TitleDelegate(QStyledItemDelegate):
    """Edits a title in a field that takes no more than one can be."""

    def createEditor(
        self, parent: QWidget, option: QStyleOptionViewItem, index: AnyIndex
    ) -> QWidget:
        editor = super().createEditor(parent, option, index)
        if isinstance(editor, QLineEdit):
            editor.setMaxLength(LONGEST_TITLE)
        return editor


class SideBar(QFrame):
    """The list of chats.

    Signals:
        open_asked(object): show this chat; None for a new one.
    """

    open_asked = Signal(object)

    def __init__(self, chats: ChatsController) -> None:
        super().__init__()
        self.setObjectName("sideBar")
        self._chats = chats
        self._following = False
        self._new = Button("New chat", name="newChat", spoken="New chat")
        self._new.clicked.connect(lambda: self.open_asked.emit(None))
        self.list = self._make_list()
        self._menu = self._make_menu()
        self._build()
        theme.signals().changed.connect(self._draw)
        self._draw()
        chats.shown_changed.connect(self._follow)
        self._chats.chat_list.modelReset.connect(self._enable)
        self.list.selectionModel().currentChanged.connect(self._on_current)
        self._enable()

    def rename_current(self) -> None:
        """Edit the title of the chat that is selected, in place."""
        if self.list.currentIndex().isValid():
            self.list.edit(self.list.currentIndex())

    def delete_current(self) -> None:
        """Delete the chat that is selected."""
        chat = self.list.currentIndex().data(CHAT_ROLE)
        if chat is not None:
            self._chats.delete(chat)

    def _make_list(self) -> QListView:
        view = QListView()
        view.setObjectName("chatList")
        view.setAccessibleName("Chats")
        view.setModel(self._chats.chat_list)
        view.setItemDelegate(TitleDelegate(view))
        view.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.DoubleClicked
        )
        view.setTextElideMode(Qt.TextElideMode.ElideRight)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        view.setUniformItemSizes(True)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(self._show_menu)
        return view

    def _make_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setObjectName("chatMenu")
        menu.addAction(action("Rename", menu, self.rename_current))
        menu.addAction(action("Delete", menu, self.delete_current))
        # Only while the list has the focus: in the composer, Delete deletes a letter.
        delete = action("Delete", self.list, self.delete_current)
        delete.setShortcut(QKeySequence(QKeySequence.StandardKey.Delete))
        delete.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.list.addAction(delete)
        return menu

    def _build(self) -> None:
        self._rename = IconButton("edit", "Rename the chat")
        self._rename.setObjectName("renameChat")
        self._rename.clicked.connect(self.rename_current)
        self._delete = IconButton("trash", "Delete the chat")
        self._delete.setObjectName("deleteChat")
        self._delete.clicked.connect(self.delete_current)
        row = QHBoxLayout()
        row.addWidget(Label("Chats", style="heading"), 1)
        row.addWidget(self._rename)
        row.addWidget(self._delete)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.setSpacing(8)
        layout.addWidget(self._new)
        layout.addLayout(row)
        layout.addWidget(self.list, 1)

    def _enable(self) -> None:
        """There is something to rename or delete only while a chat is selected."""
        selected = self.list.currentIndex().isValid()
        self._rename.setEnabled(selected)
        self._delete.setEnabled(selected)

    def _draw(self) -> None:
        self._new.setIcon(theme.icon("plus"))

    def _show_menu(self, point: QPoint) -> None:
        if self.list.indexAt(point).isValid():
            self._menu.popup(self.list.viewport().mapToGlobal(point))

    def _follow(self) -> None:
        """Select the chat that is on screen, without asking to open it again."""
        place = self._chats.chat_list.place_of(self._chats.shown)
        index = QModelIndex() if place is None else self._chats.chat_list.index(place)
        self._following = True
        self.list.setCurrentIndex(index)
        if place is None:
            self.list.clearSelection()
        self._following = False

    def _on_current(self, index: QModelIndex) -> None:
        self._enable()
        chat = index.data(CHAT_ROLE)
        if not self._following and chat is not None and chat != self._chats.shown:
            self.open_asked.emit(chat)
