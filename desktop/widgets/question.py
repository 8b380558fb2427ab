"""The question before something is deleted for good.

A double click on the button that asks must not answer. So *Keep* covers that button, the button
that deletes is elsewhere and ignores the mouse at first, and Enter and Escape keep.
"""

from __future__ import annotations

import time
from typing import cast

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, Signal, SignalInstance
from PySide6.QtGui import QCursor, QHideEvent, QKeyEvent, QMouseEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QFrame, QVBoxLayout, QWidget

from desktop.widgets.plain import Button, Label

WIDEST = 400


class GuardedButton(Button):
    """Ignores the mouse for the time of a double click after it is shown."""

    _shown_at = 0.0

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._shown_at = time.monotonic()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if time.monotonic() - self._shown_at < QApplication.doubleClickInterval() / 1000:
            event.ignore()
            return
        super().mousePressEvent(event)


class Question(QFrame):
    """Covers part of `owner`; its parts are named `deleteAllBar`, `deleteAllWords`, `deleteAllNo`
    and `deleteAllYes`.

    Signals:
        confirmed(), kept()
    """

    confirmed = Signal()
    kept = Signal()

    def __init__(self, owner: QWidget, name: str, spoken: str, keep: str, confirm: str) -> None:
        super().__init__(owner)
        self._owner = owner
        # The button pressed, or the pointer, within `owner`; null if outside.
        self._pressed = QRect()
        self.setObjectName(f"{name}Bar")
        self.setAccessibleName(spoken)
        self.setProperty("class", "notice")
        self.setProperty("kind", "danger")
        self._words = Label(name=f"{name}Words", wraps=True)
        self._confirm = GuardedButton(confirm, name=f"{name}Yes", style="danger", spoken=confirm)
        self._confirm.clicked.connect(lambda: self._answer(self.confirmed))
        self._keep = Button(keep, name=f"{name}No", spoken=keep)
        self._keep.clicked.connect(lambda: self._answer(self.kept))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.setSpacing(8)
        for part in (self._words, self._confirm, self._keep):
            layout.addWidget(part)
        self.setTabOrder(self._keep, self._confirm)
        self.hide()

    def ask(self, words: str, trigger: QWidget | None = None) -> None:
        """`trigger` is the button that was pressed, None for a menu or a key."""
        self.withdraw()
        self._words.setText(words)
        self.setAccessibleDescription(words)
        if trigger is None:
            pointer = self._owner.mapFromGlobal(QCursor.pos())
            inside = self._owner.rect().contains(pointer)
            self._pressed = QRect(pointer, pointer) if inside else QRect()
        else:
            corner = trigger.mapTo(self._owner, QPoint(0, 0))
            self._pressed = QRect(corner, trigger.size())
        self.show()
        self.raise_()
        self._place()
        self._keep.setFocus()

    def withdraw(self) -> None:
        self._words.setText("")
        self.hide()

    def _answer(self, answer: SignalInstance) -> None:
        self.withdraw()
        answer.emit()

    def _place(self) -> None:
        """Put *Keep* over the pressed button, or the question in the middle."""
        room = self._owner.rect()
        width = min(WIDEST, room.width())
        self.resize(width, self.heightForWidth(width))
        layout = self.layout()
        assert layout is not None
        layout.activate()
        place = QRect(QPoint(0, 0), self.size())
        place.moveCenter(room.center())
        if not self._pressed.isNull():
            place.moveTopLeft(self._pressed.center() - self._keep.geometry().center())
        place.moveLeft(max(room.left(), min(place.left(), room.right() - place.width() + 1)))
        place.moveTop(max(room.top(), min(place.top(), room.bottom() - place.height() + 1)))
        self.move(place.topLeft())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._owner.installEventFilter(self)
        # Escape is a shortcut of the window, and the focus may be anywhere.
        cast(QApplication, QApplication.instance()).installEventFilter(self)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        # Minimising the window also hides the question; then it stays.
        if not event.spontaneous():
            self._owner.removeEventFilter(self)
            cast(QApplication, QApplication.instance()).removeEventFilter(self)
            self.withdraw()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind == QEvent.Type.Resize and watched is self._owner:
            self._place()
        if (
            kind in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
            and isinstance(watched, QWidget)
            and watched.window() is self.window()
            and cast(QKeyEvent, event).key() == Qt.Key.Key_Escape
        ):
            event.accept()
            if kind == QEvent.Type.KeyPress:
                self._answer(self.kept)
            return True
        return super().eventFilter(watched, event)
