"""A column as wide as the conversation, and pages that scroll."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

WIDEST_PX = 860
# Wider than a scroll bar, which must not cover the text.
SIDE_PX = 24
# The column takes all room until it is at its widest.
_COLUMN_STRETCH = 10_000


def column_width(page: int) -> int:
    return max(1, min(WIDEST_PX, page - 2 * SIDE_PX))


def in_column(*widgets: QWidget, top: int = 0, bottom: int = 0) -> QHBoxLayout:
    """Widgets in a column as wide as the conversation."""
    column = QWidget()
    column.setMaximumWidth(WIDEST_PX)
    inside = QVBoxLayout(column)
    inside.setContentsMargins(0, 0, 0, 0)
    inside.setSpacing(8)
    for widget in widgets:
        inside.addWidget(widget)
    row = QHBoxLayout()
    row.setSpacing(0)
    row.setContentsMargins(SIDE_PX, top, SIDE_PX, bottom)
    row.addStretch(1)
    row.addWidget(column, _COLUMN_STRETCH)
    row.addStretch(1)
    return row


def scrolled(widget: QWidget, name: str) -> QScrollArea:
    area = QScrollArea()
    area.setObjectName(name)
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(area.horizontalScrollBarPolicy().ScrollBarAlwaysOff)
    area.setWidget(widget)
    # Let the background show through.
    widget.setAutoFillBackground(False)
    area.viewport().setAutoFillBackground(False)
    return area
