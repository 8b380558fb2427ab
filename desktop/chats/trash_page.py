"""The trash, in the place of the list of chats: restore a chat, or delete it for good."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QListView, QMenu, QVBoxLayout, QWidget

from desktop.chats.chat_delegate import ChatDelegate
from desktop.chats.chat_list import CHAT_ROLE
from desktop.chats.chats import ChatsController
from desktop.store.tables.chats import TRASH_DAYS
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Button, Label, action
from desktop.widgets.question import Question
from desktop.words import chats as words


class TrashPage(QWidget):
    """Follows the trash.

    Signals:
        left(): the list of chats is wanted back.
        doomed(object): delete this chat for good; None for all of them.
    """

    left = Signal()
    doomed = Signal(object)

    def __init__(self, chats: ChatsController) -> None:
        super().__init__()
        self.setObjectName("trashPage")
        self._chats = chats
        self.list = self._make_list()
        self._menu = QMenu(self)
        self._menu.setObjectName("trashMenu")
        self._menu.addAction(action(words.RESTORE, self._menu, self.restore_current))
        self._menu.addAction(
            action(words.DELETE_FOR_GOOD, self._menu, lambda: self._ask_for_current(None))
        )
        self._restore = Button(words.RESTORE, name="restoreChat", spoken=words.RESTORE_CHAT)
        self._delete = Button(words.DELETE_FOR_GOOD, name="deleteForGood", style="danger")
        self._delete_all = Button(words.DELETE_ALL_FOR_GOOD, name="deleteAllForGood")
        self.asks = Question(
            self, "deleteTrash", words.DELETE_ALL_FOR_GOOD, words.KEEP, words.DELETE_FOR_GOOD
        )
        self.asks.kept.connect(self.list.setFocus)
        self.asks.confirmed.connect(lambda: self.doomed.emit(self._asked))
        # What the question is about: one chat, or None for all of them.
        self._asked: int | None = None
        self._restore.clicked.connect(self.restore_current)
        self._delete.clicked.connect(lambda: self._ask_for_current(self._delete))
        self._delete_all.clicked.connect(self._ask_for_all)
        self._build()
        chats.trash.modelReset.connect(self._follow)
        self.list.selectionModel().currentChanged.connect(self._on_selected)
        self._follow()

    def restore_current(self) -> None:
        """Put the selected chat back on the list; the page stays, for there may be more."""
        chat = self.list.currentIndex().data(CHAT_ROLE)
        if chat is not None:
            self._chats.restore(chat, opened=False)

    def _make_list(self) -> QListView:
        view = QListView()
        view.setObjectName("trashList")
        view.setAccessibleName(words.TRASH)
        view.setModel(self._chats.trash)
        view.setItemDelegate(ChatDelegate(view))
        view.setTextElideMode(Qt.TextElideMode.ElideRight)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        view.setUniformItemSizes(True)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(self._show_menu)
        return view

    def _build(self) -> None:
        back = IconButton("chevron_left", words.BACK, name="leaveTrash")
        back.clicked.connect(self.left)
        head = QHBoxLayout()
        head.addWidget(back)
        head.addWidget(Label(words.TRASH, style="heading"), 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(Label(words.trash_note(TRASH_DAYS), style="muted small", wraps=True))
        layout.addWidget(self.list, 1)
        for part in (self._restore, self._delete, self._delete_all):
            layout.addWidget(part)

    def _follow(self) -> None:
        """Other chats are deleted: what was asked of all of them is asked of these no more."""
        self.asks.withdraw()
        if self._chats.trash.chats:
            self.list.setCurrentIndex(self._chats.trash.index(0))
        elif self.isVisible():
            self.left.emit()
        self._enable()

    def _on_selected(self) -> None:
        """Another chat: what was asked of the one before is asked no more."""
        self.asks.withdraw()
        self._enable()

    def _enable(self) -> None:
        selected = self.list.currentIndex().isValid()
        self._restore.setEnabled(selected)
        self._delete.setEnabled(selected)

    def _ask_for_current(self, trigger: QWidget | None) -> None:
        self._asked = self.list.currentIndex().data(CHAT_ROLE)
        if self._asked is not None:
            self.asks.ask(words.delete_trash_words(1), trigger)

    def _ask_for_all(self) -> None:
        self._asked = None
        self.asks.ask(words.delete_trash_words(len(self._chats.trash.chats)), self._delete_all)

    def _show_menu(self, point: QPoint) -> None:
        if self.list.indexAt(point).isValid():
            self._menu.popup(self.list.viewport().mapToGlobal(point))
