"""A search field: Esc clears it, Down and Enter go to the first match."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QToolButton

from desktop.i18n import tr
from desktop.widgets.plain import named, set_tip

LONGEST = 200


class SearchField(QLineEdit):
    left = Signal()
    # Down or Enter was pressed.
    found = Signal()

    def __init__(self, name: str, words: str) -> None:
        super().__init__()
        named(self, name, words)
        self.setPlaceholderText(words)
        self.setMaxLength(LONGEST)
        self.setClearButtonEnabled(True)
        for button in self.findChildren(QToolButton):
            button.setAccessibleName(tr("Clear the search"))
            set_tip(button, tr("Clear the search"))

    def event(self, event: QEvent) -> bool:
        # Before the window's Esc, which stops a reply.
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
