"""A user's words as they were typed: never as markup; a very long text scrolls in a field."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

# A label lays out all of its text at once; from here on a field that lays out what is seen is used.
LONGEST_LABEL = 8_000
LONG_TEXT_HEIGHT = 320


class UserText(QWidget):
    """Shows one plain text, selectable."""

    def __init__(self) -> None:
        super().__init__()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._shown: QWidget | None = None

    def set_text(self, text: str) -> None:
        if self._shown is not None:
            self._shown.deleteLater()
        self._shown = _field(text) if len(text) > LONGEST_LABEL else _label(text)
        self._layout.addWidget(self._shown)
        self.setVisible(bool(text))


def _label(text: str) -> QLabel:
    label = QLabel(text)
    label.setObjectName("userText")
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse
        | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    label.setAccessibleName(text[:LONGEST_LABEL])
    return label


def _field(text: str) -> QPlainTextEdit:
    field = QPlainTextEdit(text)
    field.setObjectName("userLongText")
    field.setAccessibleName("Your message")
    field.setReadOnly(True)
    field.setFrameShape(QFrame.Shape.NoFrame)
    field.viewport().setAutoFillBackground(False)
    field.setFixedHeight(LONG_TEXT_HEIGHT)
    return field
