"""A page that may be taller than the room it has."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QScrollArea, QWidget


def scrolled(widget: QWidget, name: str) -> QScrollArea:
    """A widget in an area that scrolls up and down."""
    area = QScrollArea()
    area.setObjectName(name)
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(area.horizontalScrollBarPolicy().ScrollBarAlwaysOff)
    area.setWidget(widget)
    # A scroll area fills its widget with the window's colour; here what is behind shows through.
    widget.setAutoFillBackground(False)
    area.viewport().setAutoFillBackground(False)
    return area
