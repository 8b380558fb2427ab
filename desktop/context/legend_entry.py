"""One entry of a legend: a swatch and its words."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from desktop import theme
from desktop.context.fills import TICK_HEIGHT, Fill, fill, tick_shape
from desktop.widgets.plain import Label

BAND: tuple[Fill, ...] = ("reused", "evaluated", "reply")


class LegendEntry(QWidget):
    """A swatch of what is drawn, beside what it means; a `tick` is drawn as the strip draws it."""

    def __init__(self, kind: Fill, parent: QWidget | None = None, tick: bool = False) -> None:
        super().__init__(parent)
        self._label = Label(parent=self, style="muted small")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(7)
        layout.addWidget(_Swatch(kind, tick, self))
        layout.addWidget(self._label, 1)

    def set_text(self, text: str) -> None:
        """Say what the swatch means."""
        self._label.setText(text)

    def text(self) -> str:
        """What the swatch is said to mean."""
        return self._label.text()


class _Swatch(QWidget):
    """A little of what is drawn."""

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
        # What the strip draws as a thin band is one here too.
        edge = 4 if self._kind in BAND else 0.5
        area = QRectF(self.rect()).adjusted(0.5, edge, -0.5, -edge)
        outline = QPainterPath()
        outline.addRoundedRect(area, 3, 3)
        painter.setClipPath(outline)
        fill(painter, area, self._kind)
