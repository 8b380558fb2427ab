"""Boxes over the conversation: a short message, and the question before something is deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from typing import Literal, cast

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QCursor, QHideEvent, QKeyEvent, QMouseEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QFrame, QWidget

from desktop import theme
from desktop.i18n import tr
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, Label, named
from desktop.widgets.plain_text import shortened

SHOWN_FOR_MS = 8_000
MARGIN = 10
GAP = 12
FOOT_PX = 56
# Margins and the style sheet's padding.
RIM = 14 + 8
# A label breaks a line that just fits.
SPARE = 2
MOST_CHARACTERS = 400
# Older warnings and errors are dropped.
MOST_STANDING = 20

Kind = Literal["info", "warning", "error"]
WIDEST_QUESTION = 400


class Toast(QFrame):
    """One message at a time; warnings and errors come back after later ones."""

    def __init__(self, owner: QWidget, below: QWidget) -> None:
        super().__init__(owner)
        self._owner = self._host = owner
        self._below = below
        named(self, "toast", tr("Message"))
        self._action: Callable[[], None] | None = None
        self._chat: int | None = None
        # Warnings and errors that weren't closed, with their topics, oldest first.
        self._standing: list[tuple[str, Kind, str]] = []
        self._topic = ""
        self._words = Label(name="toastText", wraps=True)
        self._button = Button(name="toastAction")
        self._button.clicked.connect(self._act)
        self._close = IconButton("close", tr("Close this message"), name="toastClose")
        self._close.clicked.connect(self._on_closed)
        parts = ((self._words, 1), self._button, self._close)
        row(*parts, of=self, margins=(14, 8, 8, 8), spacing=GAP)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._show_standing)
        below.installEventFilter(self)
        self.hide()

    def say(
        self,
        words: str,
        kind: Kind = "info",
        action: tuple[str, Callable[[], None]] | None = None,
        chat: int | None = None,
        topic: str = "",
    ) -> None:
        """`action` is a button's text and function, which needs `chat`. Replaces messages of the
        topic."""
        self._chat, self._topic = chat, topic
        words = shortened(words, MOST_CHARACTERS)
        if kind != "info":
            others = [
                each
                for each in self._standing
                if each[:2] != (words, kind) and not (topic and each[2] == topic)
            ]
            self._standing = [*others, (words, kind, topic)][-MOST_STANDING:]
        self._show_message(words, kind, action)
        if kind == "info":
            self._timer.start(SHOWN_FOR_MS)
        else:
            self._timer.stop()

    def _show_message(
        self, words: str, kind: Kind, action: tuple[str, Callable[[], None]] | None
    ) -> None:
        self._words.setText(words)
        self.setAccessibleDescription(words)
        self._button.setVisible(action is not None)
        self._action = action[1] if action else None
        if action:
            self._button.set_words(action[0])
        self.setProperty("kind", kind)
        # The style sheet uses this property for the parts too.
        for widget in (self, self._words, self._button):
            theme.restyle(widget)
        self._close.setIcon(theme.icon("close", "window" if kind == "info" else "text"))
        # A dialog in use would cover it.
        active = QApplication.activeWindow()
        covered = active and active.parentWidget() is self._owner.window() and not active.isModal()
        self._move_to(active if active and covered else self._owner)

    def _move_to(self, host: QWidget) -> None:
        if host is not self._host:
            self._host.removeEventFilter(self)
            self._host = host
            self.setParent(host)
            host.installEventFilter(self)
        self._place()
        self.show()
        self.raise_()

    def settle(self, topic: str) -> None:
        """Take back the topic's messages: the trouble is over."""
        self._standing = [each for each in self._standing if each[2] != topic]
        if self._topic == topic:
            self._show_standing()

    def _show_standing(self) -> None:
        self._timer.stop()
        self._chat, self._topic = None, ""
        if self._standing:
            words, kind, self._topic = self._standing[-1]
            self._show_message(words, kind, None)
        else:
            self.hide()

    def _on_closed(self) -> None:
        if not self._timer.isActive() and self._standing:
            self._standing.pop()
        self._show_standing()

    def keep_only(self, chats: Container[int]) -> None:
        if self._chat is not None and self._chat not in chats:
            self._show_standing()

    def _act(self) -> None:
        action, self._action = self._action, None
        self._show_standing()
        if action is not None:
            action()

    def _place(self) -> None:
        if self._host is self._owner:
            place = QRect(self._below.mapTo(self._owner, QPoint(0, 0)), self._below.size())
        else:
            # Above the buttons of the dialog.
            top = self._host.height() - theme.px(FOOT_PX)
            place = QRect(MARGIN, top, self._host.width() - 2 * MARGIN, 0)
        words = self._words.fontMetrics().horizontalAdvance(self._words.text())
        beside = [self._close, *([self._button] if self._action else [])]
        rim = self.width() - self.contentsRect().width() + RIM
        around = sum(each.sizeHint().width() + GAP for each in beside) + rim + SPARE
        self.setFixedWidth(min(place.width(), words + around))
        self.setFixedHeight(self.heightForWidth(self.width()))
        left = place.center().x() - self.width() // 2
        self.move(left, place.top() - self.height() - MARGIN)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Hide and watched is self._host is not self._owner:
            shown = not self.isHidden()
            self._move_to(self._owner)
            self.setVisible(shown)
        elif event.type() in (QEvent.Type.Resize, QEvent.Type.Move) and self.isVisible():
            self._place()
        return super().eventFilter(watched, event)


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
    and `deleteAllYes`."""

    confirmed = Signal()
    kept = Signal()

    def __init__(self, owner: QWidget, name: str, spoken: str, keep: str, confirm: str) -> None:
        super().__init__(owner)
        self._owner = owner
        # The button pressed, or the pointer, within `owner`; null if outside.
        self._pressed = QRect()
        named(self, f"{name}Bar", spoken)
        self.setProperty("class", "notice")
        self.setProperty("kind", "danger")
        self._words = Label(name=f"{name}Words", wraps=True)
        self._confirm = GuardedButton(confirm, name=f"{name}Yes", style="danger")
        self._confirm.clicked.connect(lambda: self._answer(self.confirmed))
        self._keep = Button(keep, name=f"{name}No")
        self._keep.clicked.connect(lambda: self._answer(self.kept))
        parts = (self._words, self._confirm, self._keep)
        self._layout = column(*parts, of=self, margins=(10, 10, 10, 10), spacing=8)
        self.setTabOrder(self._keep, self._confirm)
        self.hide()

    def ask(self, words: str, trigger: QWidget | None = None) -> None:
        """`trigger` is the pressed button, None for a menu or a key."""
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
        """*Keep* is over the pressed button, or the question in the middle."""
        room = self._owner.rect()
        width = min(WIDEST_QUESTION, room.width())
        self.resize(width, self.heightForWidth(width))
        self._layout.activate()
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
