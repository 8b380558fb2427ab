"""Frames, rows and columns of widgets, a column as wide as the conversation, scroll areas."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

WIDEST_PX = 860
# Wider than a scroll bar, which must not cover the text.
SIDE_PX = 24
# The column takes all room until it is at its widest.
_COLUMN_STRETCH = 10_000


# A widget with a number has this stretch; None is empty room that takes what is left.
Part = QWidget | tuple[QWidget, int] | QLayout | None
Margins = tuple[int, int, int, int]
NO_MARGINS = (0, 0, 0, 0)


class Frame(QFrame):
    def __init__(self, name: str, style: str = "card") -> None:
        super().__init__()
        self.setObjectName(name)
        self.setProperty("class", style)


def column_width(page: int) -> int:
    return max(1, min(WIDEST_PX, page - 2 * SIDE_PX))


def row(
    *parts: Part, of: QWidget | None = None, margins: Margins = NO_MARGINS, spacing: int = -1
) -> QHBoxLayout:
    """Lays out `of` if given; -1 is Qt's own spacing."""
    layout = QHBoxLayout()
    _fill(layout, parts, of, margins, spacing)
    return layout


def column(
    *parts: Part, of: QWidget | None = None, margins: Margins = NO_MARGINS, spacing: int = -1
) -> QVBoxLayout:
    layout = QVBoxLayout()
    _fill(layout, parts, of, margins, spacing)
    return layout


def _fill(
    layout: QBoxLayout,
    parts: tuple[Part, ...],
    of: QWidget | None,
    margins: Margins,
    spacing: int,
) -> None:
    if of is not None:
        of.setLayout(layout)
    layout.setContentsMargins(*margins)
    layout.setSpacing(spacing)
    for part in parts:
        if part is None:
            layout.addStretch(1)
        elif isinstance(part, QLayout):
            layout.addLayout(part)
        elif isinstance(part, tuple):
            layout.addWidget(*part)
        else:
            layout.addWidget(part)


def in_column(*widgets: QWidget, top: int = 0, bottom: int = 0) -> QHBoxLayout:
    inner = QWidget()
    inner.setMaximumWidth(WIDEST_PX)
    column(*widgets, of=inner, spacing=8)
    outer = row(None, inner, None, margins=(SIDE_PX, top, SIDE_PX, bottom), spacing=0)
    outer.setStretchFactor(inner, _COLUMN_STRETCH)
    return outer


class ScrollArea(QScrollArea):
    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.setObjectName(name)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def setWidget(self, widget: QWidget) -> None:
        super().setWidget(widget)
        # Let the background show through.
        widget.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)


def scrolled(widget: QWidget, name: str) -> ScrollArea:
    area = ScrollArea(name)
    area.setWidget(widget)
    return area
