"""A thin bar that shows true to scale how much of something is used, however little."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from desktop.common import theme
from desktop.views.widgets.fills import fill

HEIGHT = 5
# What is used but thinner than this could not be seen.
THINNEST = 2.0


class FillBar(QWidget):
    """Shows one share of a whole."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._share = 0.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.signals().changed.connect(self.update)

    def show_share(self, used: int, whole: int) -> None:
        """Show `used` of `whole`."""
        self._share = min(1.0, used / whole) if whole else 0.0
        self.update()

    def filled(self) -> float:
        """How many pixels are filled."""
        return max(THINNEST, self.width() * self._share) if self._share else 0.0

    def sizeHint(self) -> QSize:
        return QSize(200, HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(QRectF(self.rect()), HEIGHT / 2, HEIGHT / 2)
        painter.setClipPath(outline)
        fill(painter, QRectF(self.rect()), "room")
        fill(painter, QRectF(0, 0, self.filled(), self.height()), "slab")
