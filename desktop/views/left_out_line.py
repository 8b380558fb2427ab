"""The line across the transcript above which the model reads nothing any more."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from desktop.views.plain import Button, Label


class LeftOutLine(QWidget):
    """Words between two lines, and the way back.

    Signals:
        undo_asked(): have the model read all messages again.
    """

    undo_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("leftOutLine")
        words = Label(
            "Messages above are no longer read by the model",
            name="leftOutWords",
            style="muted small",
        )
        what = "Have the model read all messages again"
        undo = Button("Undo", name="leftOutUndo", style="flat", spoken=what, tip=what)
        undo.clicked.connect(self.undo_asked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 10, 0, 10)
        layout.setSpacing(10)
        layout.addWidget(_line(), 1)
        layout.addWidget(words)
        layout.addWidget(undo)
        layout.addWidget(_line(), 1)


def _line() -> QFrame:
    line = QFrame()
    line.setProperty("class", "separator")
    return line
