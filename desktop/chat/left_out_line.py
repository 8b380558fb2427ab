"""The line across the transcript above which the model reads nothing any more."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from desktop.widgets.plain import Button, Label
from desktop.words.conversation import LEFT_OUT, READ_ALL, UNDO


class LeftOutLine(QWidget):
    """Words between two lines, and how to undo it.

    Signals:
        undo_asked(): have the model read all messages again.
    """

    undo_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("leftOutLine")
        words = _Words(
            LEFT_OUT,
            name="leftOutWords",
            style="muted small",
            wraps=True,
        )
        undo = Button(UNDO, name="leftOutUndo", style="flat", spoken=READ_ALL, tip=READ_ALL)
        undo.clicked.connect(self.undo_asked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 10, 0, 10)
        layout.setSpacing(10)
        layout.addWidget(_line(), 1)
        layout.addWidget(words)
        layout.addWidget(undo)
        layout.addWidget(_line(), 1)


class _Words(Label):
    """On one line where there is room for it, on several otherwise."""

    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(self.text()) + 2
        return QSize(width, self.heightForWidth(width))


def _line() -> QFrame:
    line = QFrame()
    line.setProperty("class", "separator")
    return line
