"""Fills shared by the strip, the byte bars and their legends.

Kinds that are next to each other differ by pattern or lightness as well as by hue, so that they can
be told apart without seeing colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from desktop import theme
from desktop.widgets.plain import Label

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
# The line along the lower edge of parts that a restart keeps.
KEPT_HEIGHT = 3
# Fills that are the colour of their name.
_PLAIN = ("slab", "memory", "reused", "evaluated", "reply", "room", "checkpoint")
# Drawn as a thin band in the strip, and in its legend.
_BAND = ("reused", "evaluated", "reply")
# Anything used is drawn at least this wide.
THINNEST = 2.0


def fill(painter: QPainter, area: QRectF, kind: Fill) -> None:
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
    lines = QColor(theme.colours().image)
    lines.setAlphaF(0.55)
    painter.fillRect(area, QBrush(lines, Qt.BrushStyle.BDiagPattern))


def mark_kept(painter: QPainter, area: QRectF) -> None:
    table = theme.colours()
    line = QRectF(area.left(), area.bottom() - KEPT_HEIGHT, area.width(), KEPT_HEIGHT)
    # A seam sets the line off from any colour.
    painter.fillRect(line.adjusted(0, -1, 0, 0), QColor(table.image))
    painter.fillRect(line, QColor(table.checkpoint))


def tick_shape(tip: QPointF) -> QPolygonF:
    top = tip.y() - TICK_HEIGHT + 1
    left, right = tip.x() - TICK_HALF_WIDTH, tip.x() + TICK_HALF_WIDTH
    return QPolygonF([tip, QPointF(left, top), QPointF(right, top)])


class FillBar(QWidget):
    def __init__(self, height: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._height = height
        self._shares: list[tuple[Fill, float]] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.signals().changed.connect(self.update)

    def show_shares(self, shares: Sequence[tuple[Fill, int]], whole: int) -> None:
        """Show shares of `whole`, or of their sum if that is larger."""
        whole = max(whole, sum(size for _, size in shares), 1)
        self._shares = [(kind, size / whole) for kind, size in shares if size]
        self.update()

    def widths(self) -> list[tuple[Fill, float]]:
        """The painted width of each share that is not empty."""
        return [(kind, max(THINNEST, self.width() * share)) for kind, share in self._shares]

    def sizeHint(self) -> QSize:
        return QSize(200, self._height)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(QRectF(self.rect()), self._height / 2, self._height / 2)
        painter.setClipPath(outline)
        fill(painter, QRectF(self.rect()), "room")
        left = 0.0
        for kind, width in self.widths():
            fill(painter, QRectF(left, 0, width, self.height()), kind)
            left += width


class LegendEntry(QWidget):
    """A swatch and its meaning; a `tick` is drawn as the strip draws it."""

    def __init__(self, kind: Fill, parent: QWidget | None = None, tick: bool = False) -> None:
        super().__init__(parent)
        self._label = Label(parent=self, style="muted small")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(7)
        layout.addWidget(_Swatch(kind, tick, self))
        layout.addWidget(self._label, 1)

    def set_text(self, text: str) -> None:
        self._label.setText(text)

    def text(self) -> str:
        return self._label.text()


class _Swatch(QWidget):
    def __init__(self, kind: Fill, tick: bool, parent: QWidget) -> None:
        super().__init__(parent)
        self._kind: Fill = kind
        self._tick = tick
        self.setFixedSize(QSize(12, 12))
        theme.signals().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._tick:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.colours().checkpoint))
            painter.drawPolygon(tick_shape(QPointF(6, 3 + TICK_HEIGHT)))
            return
        edge = 4 if self._kind in _BAND else 0.5
        area = QRectF(self.rect()).adjusted(0.5, edge, -0.5, -edge)
        outline = QPainterPath()
        outline.addRoundedRect(area, 3, 3)
        painter.setClipPath(outline)
        fill(painter, area, self._kind)
