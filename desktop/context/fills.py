"""How each kind of thing is filled, alike in the strip, in the bars of bytes and in their legends.

Kinds that stand beside each other differ by pattern or by lightness as well as by hue, so that they
can be told apart without seeing colours.
"""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPolygonF

from desktop import theme

Fill = Literal[
    "slab",
    "memory",
    "disk",
    "unknown",
    "reused",
    "evaluated",
    "reply",
    "room",
    "image",
    "checkpoint",
    "kept",
    "moving",
]
TICK_HEIGHT = 7
TICK_HALF_WIDTH = 4.0
# The line along the lower edge of what a restart keeps.
KEPT_HEIGHT = 3
# Fills that are the colour of their name.
_PLAIN = ("slab", "memory", "reused", "evaluated", "reply", "room", "checkpoint")


def fill(painter: QPainter, area: QRectF, kind: Fill) -> None:
    """Fill an area as this kind is filled everywhere."""
    table = theme.colours()
    if kind in _PLAIN:
        painter.fillRect(area, QColor(getattr(table, kind)))
    elif kind == "disk":
        painter.fillRect(area, QColor(table.room))
        painter.fillRect(area, QBrush(QColor(table.disk), Qt.BrushStyle.Dense3Pattern))
    elif kind == "image":
        painter.fillRect(area, QColor(table.muted))
        hatch(painter, area)
    elif kind == "kept":
        painter.fillRect(area, QColor(table.room))
        mark_kept(painter, area)
    elif kind == "moving":
        painter.fillRect(area, QBrush(QColor(table.muted), Qt.BrushStyle.VerPattern))
    else:
        painter.fillRect(area, QColor(table.border_strong))


def hatch(painter: QPainter, area: QRectF) -> None:
    """Mark an area that is filled already as an image."""
    lines = QColor(theme.colours().image)
    lines.setAlphaF(0.55)
    painter.fillRect(area, QBrush(lines, Qt.BrushStyle.BDiagPattern))


def mark_kept(painter: QPainter, area: QRectF) -> None:
    """Mark an area that is filled already as what a restart keeps."""
    table = theme.colours()
    line = QRectF(area.left(), area.bottom() - KEPT_HEIGHT, area.width(), KEPT_HEIGHT)
    # A seam sets the line off from any colour it lies on.
    painter.fillRect(line.adjusted(0, -1, 0, 0), QColor(table.image))
    painter.fillRect(line, QColor(table.checkpoint))


def tick_shape(tip: QPointF) -> QPolygonF:
    """The small flag of a checkpoint, pointing down at `tip`."""
    top = tip.y() - TICK_HEIGHT + 1
    left, right = tip.x() - TICK_HALF_WIDTH, tip.x() + TICK_HALF_WIDTH
    return QPolygonF([tip, QPointF(left, top), QPointF(right, top)])
