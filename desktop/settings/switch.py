"""A switch for what is on or off: a button that stays in, drawn as a knob on a rail."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from desktop import theme

WIDTH, HEIGHT = 36, 20
KNOB = 14


class Switch(QAbstractButton):
    """Checked is on. Space turns it, like a click."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        theme.signals().changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(WIDTH + 4, HEIGHT + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        table = theme.colours()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rail = QRectF(2, 2, WIDTH, HEIGHT)
        on, enabled = self.isChecked(), self.isEnabled()
        colour = table.accent if on else table.surface
        edge = table.accent if on or self.hasFocus() else table.border_strong
        knob = table.on_accent if on else table.muted
        if not enabled:
            colour, edge, knob = table.room, table.border, table.disabled
        painter.setBrush(QColor(colour))
        painter.setPen(QPen(QColor(edge), 1))
        painter.drawRoundedRect(rail, HEIGHT / 2, HEIGHT / 2)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(knob))
        inside = (HEIGHT - KNOB) / 2
        left = rail.right() - inside - KNOB if on else rail.left() + inside
        painter.drawEllipse(QRectF(left, rail.top() + inside, KNOB, KNOB))
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(table.text), 1))
            painter.drawRoundedRect(rail.adjusted(-1.5, -1.5, 1.5, 1.5), 12, 12)
