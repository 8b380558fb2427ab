"""A field that one searches with: Esc clears it and leaves, Down and Enter go to what was found."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QToolButton

from desktop.widgets.plain import set_tip
from desktop.words.chats import CLEAR

LONGEST = 200


class SearchField(QLineEdit):
    """Searches as one types.

    Signals:
        left(): Esc was pressed, and nothing is searched for any more.
        found(): Down or Enter was pressed; the first match is wanted.
    """

    left = Signal()
    found = Signal()

    def __init__(self, name: str, words: str) -> None:
        super().__init__()
        self.setObjectName(name)
        self.setAccessibleName(words)
        self.setPlaceholderText(words)
        self.setMaxLength(LONGEST)
        self.setClearButtonEnabled(True)
        for button in self.findChildren(QToolButton):
            button.setAccessibleName(CLEAR)
            set_tip(button, CLEAR)

    def event(self, event: QEvent) -> bool:
        # Else the window's own Esc, which stops a reply, would have it.
        if event.type() == QEvent.Type.ShortcutOverride:
            assert isinstance(event, QKeyEvent)
            if event.key() == Qt.Key.Key_Escape:
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        match event.key():
            case Qt.Key.Key_Escape:
                self.clear()
                self.left.emit()
            case Qt.Key.Key_Down | Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self.found.emit()
            case _:
                super().keyPressEvent(event)
