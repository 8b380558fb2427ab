"""The trash, shown in place of the list of chats: restore a chat, or delete it for good."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Signal
from PySide6.QtWidgets import QHBoxLayout, QListView, QMenu, QVBoxLayout, QWidget

from desktop.chats.chat_delegate import set_up
from desktop.chats.chat_list import CHAT_ROLE
from desktop.chats.chats import ChatsController
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.store.tables.chats import TRASH_DAYS
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Button, Label, action
from desktop.widgets.question import Question


class TrashPage(QWidget):
    """Signals:
    left(): back to the list of chats.
    delete_asked(object): delete this chat for good; None for all of them.
    """

    left = Signal()
    delete_asked = Signal(object)

    def __init__(self, chats: ChatsController) -> None:
        super().__init__()
        self.setObjectName("trashPage")
        self._chats = chats
        self.list = QListView()
        set_up(self.list, "trashList", tr("Deleted chats"), chats.trash, self._show_menu)
        self._menu = QMenu(self)
        self._menu.setObjectName("trashMenu")
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
        # The chat that the question is about; None for all of them.
        self._asked: int | None = None
        self._restore.clicked.connect(self.restore_current)
        self._delete.clicked.connect(lambda: self._ask_for_current(self._delete))
        self._delete_all.clicked.connect(self._ask_for_all)
        self._build()
        chats.trash.modelReset.connect(self._follow)
        self.list.selectionModel().currentChanged.connect(self._on_selected)
        self._follow()

    def restore_current(self) -> None:
        chat = self.list.currentIndex().data(CHAT_ROLE)
        if chat is not None:
            self._chats.restore(chat, opened=False)

    def _build(self) -> None:
        back = IconButton("chevron_left", tr("Back to the chats"), name="leaveTrash")
        back.clicked.connect(self.left)
        head = QHBoxLayout()
        head.addWidget(back)
        head.addWidget(Label(tr("Deleted chats"), style="heading"), 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(
            Label(
                tr("Kept for {} days, then deleted for good.").format(TRASH_DAYS),
                style="muted small",
                wraps=True,
            )
        )
        layout.addWidget(self.list, 1)
        for part in (self._restore, self._delete, self._delete_all):
            layout.addWidget(part)

    def _follow(self) -> None:
        """Withdraw the question: it was about other chats."""
        self.asks.withdraw()
        if self._chats.trash.chats:
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
        self._asked = self.list.currentIndex().data(CHAT_ROLE)
        if self._asked is not None:
            self.asks.ask(_question(1), trigger)

    def _ask_for_all(self) -> None:
        self._asked = None
        self.asks.ask(_question(len(self._chats.trash.chats)), self._delete_all)

    def _show_menu(self, point: QPoint) -> None:
        if self.list.indexAt(point).isValid():
            self._menu.popup(self.list.viewport().mapToGlobal(point))


def _question(count: int) -> str:
    if count == 1:
        return tr(
            "Delete this chat for good, with its messages and pictures? This can't be undone."
        )
    return tr(
        "Delete all {} chats for good, with their messages and pictures? This can't be undone."
    ).format(format_count(count))
