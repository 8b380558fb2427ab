"""Views of chats and of the trash."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPoint, Qt
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragMoveEvent,
    QDropEvent,
    QFont,
    QKeyEvent,
    QMouseEvent,
    QPainter,
)
from PySide6.QtWidgets import QAbstractItemView, QListView, QStyleOptionViewItem

from desktop import theme
from desktop.chats.chat_list import (
    CHAT_MIME,
    CHAT_ROLE,
    FORKED_ROLE,
    INSIDE_ROLE,
    OPEN_ROLE,
    ChatList,
)
from desktop.widgets.plain import named
from desktop.widgets.two_lines import (
    ENDS_PX,
    SIDE_PX,
    AnyIndex,
    TwoLineDelegate,
    set_up,
    small,
    write,
)

ICON_PX = 14
INSIDE_PX = 14


def set_up_chats(
    view: QListView,
    name: str,
    spoken: str,
    model: QAbstractItemModel,
    show_menu: Callable[[QPoint], None],
) -> None:
    named(view, name, spoken)
    set_up(view, model, ChatDelegate(view))
    view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    view.customContextMenuRequested.connect(show_menu)


class ChatDelegate(TwoLineDelegate):
    def initStyleOption(self, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        super().initStyleOption(option, index)
        icon = "fork" if index.data(FORKED_ROLE) else ""
        if (is_open := index.data(OPEN_ROLE)) is not None:
            icon = "chevron_down" if is_open else "chevron_right"
            option.font.setWeight(QFont.Weight.DemiBold)
        if icon:
            option.features |= QStyleOptionViewItem.ViewItemFeature.HasDecoration
            option.icon = theme.icon(icon, "muted")
            option.decorationSize = theme.icon_size(ICON_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        if index.data(CHAT_ROLE) is None and index.data(OPEN_ROLE) is None:
            self._paint_head(painter, option, str(index.data()))
            return
        if index.data(INSIDE_ROLE):
            option.rect = option.rect.adjusted(theme.px(INSIDE_PX), 0, 0, 0)
        super().paint(painter, option, index)

    def _paint_head(self, painter: QPainter, option: QStyleOptionViewItem, words: str) -> None:
        font = small(option.font)
        font.setWeight(QFont.Weight.DemiBold)
        place = option.rect.adjusted(SIDE_PX, 0, -SIDE_PX, -ENDS_PX // 2)
        write(painter, place, font, theme.colours().muted, words, Qt.AlignmentFlag.AlignBottom)


class ChatsView(QListView):
    """Keys select no section heads; chats are dragged between folders."""

    def __init__(self, chats: ChatList) -> None:
        super().__init__()
        self._chats = chats
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
        # A row is a place to drop on, not a gap between rows.
        self.setDragDropOverwriteMode(True)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        super().dragEnterEvent(event)
        event.setAccepted(event.mimeData().hasFormat(CHAT_MIME))

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        super().dragMoveEvent(event)
        event.setAccepted(event.mimeData().hasFormat(CHAT_MIME))

    def dropEvent(self, event: QDropEvent) -> None:
        self._chats.drop(event.mimeData(), self.indexAt(event.position().toPoint()))
        # Qt would blank the row after a move.
        event.setDropAction(Qt.DropAction.IgnoreAction)
        event.accept()
        self.setState(QAbstractItemView.State.NoState)
        self.viewport().update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        # A folder is not renamed by two quick clicks.
        if self._chats.folder_at(self.indexAt(event.position().toPoint())) is None:
            super().mouseDoubleClickEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        folder = self._chats.folder_at(self.currentIndex())
        if folder is not None and event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            leads_in = (event.key() == Qt.Key.Key_Right) is self.isLeftToRight()
            self._chats.turn(folder, is_open=leads_in)
        else:
            super().keyPressEvent(event)

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
