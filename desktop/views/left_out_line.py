"""The line across the transcript above which the model reads nothing any more."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget


class LeftOutLine(QWidget):
    """Words between two lines, and the way back.

    Signals:
        undo_asked(): have the model read all messages again.
    """

    undo_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("leftOutLine")
        words = QLabel("Messages above are no longer read by the model")
        words.setObjectName("leftOutWords")
        words.setProperty("class", "muted small")
        undo = QPushButton("Undo")
        undo.setObjectName("leftOutUndo")
        undo.setProperty("class", "flat")
        undo.setAccessibleName("Have the model read all messages again")
        undo.setToolTip("Have the model read all messages again")
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
