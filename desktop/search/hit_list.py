"""The list of what was found, and how its rows are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QTextCharFormat, QTextLayout
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from desktop import theme
from desktop.i18n import tr
from desktop.numbers import BETWEEN
from desktop.search.index import Hit
from desktop.widgets.plain_text import shortened

AnyIndex = QModelIndex | QPersistentModelIndex
HIT_ROLE = Qt.ItemDataRole.UserRole
LONGEST_TITLE = 120
LINES = 2
SIDE_PX, ENDS_PX, GAP_PX = 12, 8, 3
_NOWHERE = QModelIndex()


class HitList(QAbstractListModel):
    def __init__(self) -> None:
        super().__init__()
        self.hits: list[Hit] = []

    def show(self, hits: Sequence[Hit]) -> None:
        """Show these; rows that stay keep their selection."""
        before = len(self.hits)
        if list(hits[:before]) != self.hits:
            self.beginResetModel()
            self.hits = list(hits)
            self.endResetModel()
        elif len(hits) > before:
            self.beginInsertRows(QModelIndex(), before, len(hits) - 1)
            self.hits = list(hits)
            self.endInsertRows()

    def rowCount(self, parent: AnyIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.hits)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        hit = self.hits[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return f"{hit.title}, {_facts(hit)}: {''.join(hit.extract)}"
            case _:
                return hit if role == HIT_ROLE else None


class HitDelegate(QStyledItemDelegate):
    """Draws the chat's title, who wrote when, and two lines around the match, which is marked."""

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        line = QFontMetrics(option.font).height()
        return QSize(200, (1 + LINES) * line + GAP_PX + 2 * ENDS_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        hit = index.data(HIT_ROLE)
        frame = QStyleOptionViewItem(option)
        self.initStyleOption(frame, index)
        frame.text = ""
        frame.widget.style().drawControl(
            QStyle.ControlElement.CE_ItemViewItem, frame, painter, frame.widget
        )
        place = option.rect.adjusted(SIDE_PX, ENDS_PX, -SIDE_PX, -ENDS_PX)
        painter.save()
        painter.setClipRect(place)
        self._paint_head(painter, option.font, place, hit)
        top = place.top() + QFontMetrics(option.font).height() + GAP_PX
        self._paint_extract(painter, option.font, QPointF(place.left(), top), place.width(), hit)
        painter.restore()

    def _paint_head(self, painter: QPainter, font: QFont, place: QRect, hit: Hit) -> None:
        table, metrics = theme.colours(), QFontMetrics(font)
        facts = metrics.elidedText(
            _facts(hit), Qt.TextElideMode.ElideRight, max(1, place.width() * 2 // 3)
        )
        painter.setFont(font)
        painter.setPen(QColor(table.muted))
        top_right = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignRight
        painter.drawText(place, top_right, facts)
        bold = QFont(font)
        bold.setWeight(QFont.Weight.DemiBold)
        room = place.width() - metrics.horizontalAdvance(facts) - SIDE_PX
        title = QFontMetrics(bold).elidedText(
            shortened(hit.title, LONGEST_TITLE), Qt.TextElideMode.ElideRight, room
        )
        painter.setFont(bold)
        painter.setPen(QColor(table.text))
        painter.drawText(place, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft, title)

    def _paint_extract(
        self, painter: QPainter, font: QFont, place: QPointF, width: int, hit: Hit
    ) -> None:
        table = theme.colours()
        before, match, after = hit.extract
        layout = QTextLayout(f"{before}{match}{after}", font)
        mark = QTextLayout.FormatRange()
        # QTextLayout counts in UTF-16.
        mark.start, mark.length = _units(before), _units(match)
        mark.format = QTextCharFormat()
        mark.format.setBackground(QColor(table.accent_soft))
        mark.format.setFontWeight(QFont.Weight.DemiBold)
        layout.setFormats([mark])
        layout.beginLayout()
        for number in range(LINES):
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(width)
            line.setPosition(QPointF(0, number * QFontMetrics(font).height()))
        layout.endLayout()
        painter.setPen(QColor(table.text))
        layout.draw(painter, place)


def _facts(hit: Hit) -> str:
    day = datetime.fromtimestamp(hit.created)
    if not hit.message:
        who = tr("title")
    elif hit.is_reply:
        who = hit.model or tr("reply")
    else:
        who = tr("document") if hit.in_document else tr("you")
    return f"{who}{BETWEEN}{day.day} {day:%b %Y}"


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
