"""Rows and columns of widgets, each laid out in one call."""

from __future__ import annotations

from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLayout, QVBoxLayout, QWidget

# None is empty room that takes what is left.
Part = QWidget | QLayout | None
Margins = tuple[int, int, int, int]
NO_MARGINS = (0, 0, 0, 0)


def row(
    *parts: Part, of: QWidget | None = None, margins: Margins = NO_MARGINS, spacing: int = -1
) -> QHBoxLayout:
    """Parts side by side, as the layout of a widget or inside another; -1 is Qt's own spacing."""
    layout = QHBoxLayout()
    _fill(layout, parts, of, margins, spacing)
    return layout


def column(
    *parts: Part, of: QWidget | None = None, margins: Margins = NO_MARGINS, spacing: int = -1
) -> QVBoxLayout:
    """Parts one below the other; see `row`."""
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
        else:
            layout.addWidget(part)
