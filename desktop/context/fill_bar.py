"""A bar that shows true to scale what a whole is used for, however little that is."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from desktop import theme
from desktop.context.fills import Fill, fill

# What is used but thinner than this could not be seen.
THINNEST = 2.0


class FillBar(QWidget):
    """Shows shares of a whole side by side, `height` pixels high."""

    def __init__(self, height: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._height = height
        self._shares: list[tuple[Fill, float]] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.signals().changed.connect(self.update)

    def show_shares(self, shares: Sequence[tuple[Fill, int]], whole: int) -> None:
        """Show these of a whole, or of all of them where that is less."""
        whole = max(whole, sum(size for _, size in shares), 1)
        self._shares = [(kind, size / whole) for kind, size in shares if size]
        self.update()

    def widths(self) -> list[tuple[Fill, float]]:
        """Each share that is not empty, and how wide it is painted."""
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
