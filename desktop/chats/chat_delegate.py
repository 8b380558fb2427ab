"""Sets up the lists of chats and draws their rows: titles, titles with a note, section heads."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from desktop import theme
from desktop.chats.chat_list import CHAT_ROLE, FORKED_ROLE, LONGEST_TITLE, NOTE_ROLE

AnyIndex = QModelIndex | QPersistentModelIndex
# The padding of the style sheet.
SIDE_PX, ENDS_PX = 14, 8
NOTE_PX = 2
SMALLER = 0.88
FORK_PX = 14


def set_up(
    view: QListView,
    name: str,
    spoken: str,
    model: QAbstractItemModel,
    show_menu: Callable[[QPoint], None],
) -> None:
    view.setObjectName(name)
    view.setAccessibleName(spoken)
    view.setModel(model)
    view.setItemDelegate(ChatDelegate(view))
    view.setTextElideMode(Qt.TextElideMode.ElideRight)
    view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    # With rows of one height, Qt asks only for the visible ones.
    view.setUniformItemSizes(True)
    view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    view.customContextMenuRequested.connect(show_menu)


class ChatDelegate(QStyledItemDelegate):
    def createEditor(
        self, parent: QWidget, option: QStyleOptionViewItem, index: AnyIndex
    ) -> QWidget:
        editor = super().createEditor(parent, option, index)
        if isinstance(editor, QLineEdit):
            editor.setMaxLength(LONGEST_TITLE)
        return editor

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, index: AnyIndex
    ) -> None:
        # Qt's place is as large as the text, so the frame of the editor would cover it.
        editor.setGeometry(option.rect)

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        size = super().sizeHint(option, index)
        if index.data(NOTE_ROLE):
            size.setHeight(size.height() + NOTE_PX + QFontMetrics(_small(option.font)).height())
        return size

    def initStyleOption(self, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        super().initStyleOption(option, index)
        if index.data(FORKED_ROLE):
            option.features |= QStyleOptionViewItem.ViewItemFeature.HasDecoration
            option.icon = theme.icon("fork", "muted")
            option.decorationSize = theme.icon_size(FORK_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        note = index.data(NOTE_ROLE)
        if index.data(CHAT_ROLE) is None:
            self._paint_head(painter, option, str(index.data()))
        elif note:
            self._paint_with_note(painter, option, index, str(note))
        else:
            super().paint(painter, option, index)

    def _paint_head(self, painter: QPainter, option: QStyleOptionViewItem, words: str) -> None:
        font = _small(option.font)
        font.setWeight(QFont.Weight.DemiBold)
        place = option.rect.adjusted(SIDE_PX, 0, -SIDE_PX, -ENDS_PX // 2)
        _write(painter, place, font, theme.colours().muted, words, Qt.AlignmentFlag.AlignBottom)

    def _paint_with_note(
        self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex, note: str
    ) -> None:
        row = QStyleOptionViewItem(option)
        self.initStyleOption(row, index)
        title, row.text = row.text, ""
        style = row.widget.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, row, painter, row.widget)
        place = option.rect.adjusted(SIDE_PX, ENDS_PX, -SIDE_PX, -ENDS_PX)
        table = theme.colours()
        _write(painter, place, option.font, table.text, title, Qt.AlignmentFlag.AlignTop)
        small = _small(option.font)
        _write(painter, place, small, table.muted, note, Qt.AlignmentFlag.AlignBottom)


def _small(font: QFont) -> QFont:
    smaller = QFont(font)
    if font.pixelSize() > 0:
        smaller.setPixelSize(round(font.pixelSize() * SMALLER))
    else:
        smaller.setPointSizeF(font.pointSizeF() * SMALLER)
    return smaller


def _write(
    painter: QPainter, place: QRect, font: QFont, colour: str, words: str, side: Qt.AlignmentFlag
) -> None:
    line = QFontMetrics(font).elidedText(words, Qt.TextElideMode.ElideRight, place.width())
    painter.save()
    painter.setFont(font)
    painter.setPen(QColor(colour))
    painter.drawText(place, side | Qt.AlignmentFlag.AlignLeft, line)
    painter.restore()
