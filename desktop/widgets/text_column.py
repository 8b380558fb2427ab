"""How wide the conversation and all that stands above and below it is, scroll bar or none."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

WIDEST_PX = 860
# Wider than a scroll bar, which so never covers the text beside it.
SIDE_PX = 24
# Against this the empty room on both sides takes nothing until the column is at its widest.
_COLUMN_STRETCH = 10_000


def column_width(page: int) -> int:
    """The width of the text on a page of this width."""
    return max(1, min(WIDEST_PX, page - 2 * SIDE_PX))


def in_column(*widgets: QWidget, top: int = 0, bottom: int = 0) -> QHBoxLayout:
    """Widgets one below the other, as wide as the conversation."""
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
