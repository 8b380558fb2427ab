"""A list's model, and rows with a second, smaller line below their text and an editor over both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from PySide6.QtCore import (
    QAbstractItemModel,
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
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

T = TypeVar("T")
AnyIndex = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()
# The second line.
NOTE_ROLE = Qt.ItemDataRole.UserRole + 1
# Longer than the widest list.
LONGEST_TITLE = 200
# The padding of the style sheet.
SIDE_PX, ENDS_PX = 14, 8
NOTE_PX = 2
SMALLER = 0.88


class ListModel(QAbstractListModel, Generic[T]):
    def __init__(self) -> None:
        super().__init__()
        self.shown: list[T] = []

    def reset(self, shown: Sequence[T]) -> None:
        self.beginResetModel()
        self.shown = list(shown)
        self.endResetModel()

    def at(self, index: AnyIndex) -> T | None:
        return self.shown[index.row()] if index.isValid() else None

    def data_of(self, row: T, role: int) -> Any:
        raise NotImplementedError

    def rowCount(self, parent: AnyIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.shown)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        return self.data_of(self.shown[index.row()], role) if index.isValid() else None


def set_up(view: QListView, model: QAbstractItemModel, delegate: QStyledItemDelegate) -> None:
    view.setModel(model)
    view.setItemDelegate(delegate)
    view.setTextElideMode(Qt.TextElideMode.ElideRight)
    view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    # With rows of one height, Qt asks only for the visible ones.
    view.setUniformItemSizes(True)


class TwoLineDelegate(QStyledItemDelegate):
    """Draws NOTE_ROLE below the text of rows that have one."""

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
            size.setHeight(size.height() + NOTE_PX + QFontMetrics(small(option.font)).height())
        return size

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        note = index.data(NOTE_ROLE)
        if note:
            self._paint_with_note(painter, option, index, str(note))
        else:
            super().paint(painter, option, index)

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
        write(painter, place, option.font, table.text, title, Qt.AlignmentFlag.AlignTop)
        font = small(option.font)
        write(painter, place, font, table.muted, note, Qt.AlignmentFlag.AlignBottom)


def small(font: QFont) -> QFont:
    smaller = QFont(font)
    if font.pixelSize() > 0:
        smaller.setPixelSize(round(font.pixelSize() * SMALLER))
    else:
        smaller.setPointSizeF(font.pointSizeF() * SMALLER)
    return smaller


def write(
    painter: QPainter, place: QRect, font: QFont, colour: str, words: str, side: Qt.AlignmentFlag
) -> None:
    line = QFontMetrics(font).elidedText(words, Qt.TextElideMode.ElideRight, place.width())
    painter.save()
    painter.setFont(font)
    painter.setPen(QColor(colour))
    painter.drawText(place, side | Qt.AlignmentFlag.AlignLeft, line)
    painter.restore()
