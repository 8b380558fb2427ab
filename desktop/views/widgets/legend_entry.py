"""One entry of the strip's legend: a swatch and its words."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from desktop import theme
from desktop.views.widgets.context_bar import TICK_HEIGHT, tick_shape

LegendKind = Literal["reused", "evaluated", "reply", "room", "image", "checkpoint"]


class LegendEntry(QWidget):
    """A swatch of what the strip draws, beside what it means."""

    def __init__(self, kind: LegendKind, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = QLabel(self)
        self._label.setProperty("class", "muted small")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(7)
        layout.addWidget(_Swatch(kind, self))
        layout.addWidget(self._label, 1)

    def set_text(self, text: str) -> None:
        """Say what the swatch means."""
        self._label.setText(text)

    def text(self) -> str:
        """What the swatch is said to mean."""
        return self._label.text()


class _Swatch(QWidget):
    """A little of what the strip draws."""

    def __init__(self, kind: LegendKind, parent: QWidget) -> None:
        super().__init__(parent)
        self._kind = kind
        self.setFixedSize(QSize(12, 12))
        theme.signals().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        table = theme.colours()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        if self._kind == "checkpoint":
            painter.setBrush(QColor(table.checkpoint))
            painter.drawPolygon(tick_shape(QPointF(6, 3 + TICK_HEIGHT)))
            return
        if self._kind == "image":
            painter.setBrush(QColor(table.muted))
            painter.drawRoundedRect(area, 3, 3)
            painter.setBrush(QBrush(QColor(table.image), Qt.BrushStyle.BDiagPattern))
        else:
            painter.setBrush(QColor(getattr(table, self._kind)))
        painter.drawRoundedRect(area, 3, 3)
