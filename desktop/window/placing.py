"""Where a window may stand: whole on one of the screens there are. Pure functions of rectangles."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRect, QSize

# What the system draws around a window is not known before it is shown.
FRAME = QSize(8, 40)


def fitted_size(size: QSize, screen: QRect) -> QSize:
    """The size, or as much of it as there is room for on a screen beside the window's frame."""
    return size.boundedTo(screen.size() - FRAME)


def fitted(window: QRect, screens: Sequence[QRect]) -> QRect:
    """The window's place, or one whole on a screen: the one most of it lies on, or the first."""
    screen = max(screens, key=lambda each: _area(each.intersected(window)))
    size = window.size()
    if size.boundedTo(screen.size()) != size:
        size = fitted_size(size, screen)
    most = QPoint(screen.right() - size.width() + 1, screen.bottom() - size.height() + 1)
    left = max(screen.left(), min(window.left(), most.x()))
    top = max(screen.top(), min(window.top(), most.y()))
    return QRect(QPoint(left, top), size)


def _area(part: QRect) -> int:
    return max(0, part.width()) * max(0, part.height())
