"""A short message over the conversation, with an optional action.

Information disappears by itself; warnings and errors stay until they are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Literal

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from desktop import theme
from desktop.i18n import tr
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Button, Label
from desktop.widgets.plain_text import shortened

SHOWN_FOR_MS = 8_000
MARGIN = 10
GAP = 12
# Margins and the style sheet's padding.
RIM = 14 + 8
# A label breaks a line that just fits.
SPARE = 2
MOST_CHARACTERS = 400
# Older warnings and errors are dropped.
MOST_STANDING = 20

Kind = Literal["info", "warning", "error"]


class Toast(QFrame):
    """Shows one message at a time over `owner`, above `below`.

    Warnings and errors come back after later messages.
    """

    def __init__(self, owner: QWidget, below: QWidget) -> None:
        super().__init__(owner)
        self._owner = owner
        self._below = below
        self.setObjectName("toast")
        self.setAccessibleName(tr("Message"))
        self._action: Callable[[], None] | None = None
        self._chat: int | None = None
        # Warnings and errors that weren't closed, oldest first.
        self._standing: list[tuple[str, Kind]] = []
        self._words = Label(name="toastText", wraps=True)
        self._button = Button(name="toastAction")
        self._button.clicked.connect(self._act)
        self._close = IconButton("close", tr("Close this message"), name="toastClose")
        self._close.clicked.connect(self._on_closed)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(14, 8, 8, 8)
        layout.setSpacing(GAP)
        layout.addWidget(self._words, 1)
        layout.addWidget(self._button)
        layout.addWidget(self._close)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._show_standing)
        below.installEventFilter(self)
        self.hide()

    def say(
        self,
        words: str,
        kind: Kind = "info",
        action: tuple[str, Callable[[], None]] | None = None,
        chat: int | None = None,
    ) -> None:
        """`action` is a button's text and function; `chat` the chat it needs."""
        self._chat = chat
        words = shortened(words, MOST_CHARACTERS)
        if kind != "info":
            self._standing = [each for each in self._standing if each != (words, kind)]
            self._standing = [*self._standing, (words, kind)][-MOST_STANDING:]
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
            self._button.setAccessibleName(action[0])
        self.setProperty("kind", kind)
        # The style sheet uses this property for the parts too.
        for widget in (self, self._words, self._button):
            theme.restyle(widget)
        self._close.setIcon(theme.icon("close", "window" if kind == "info" else "text"))
        self._place()
        self.show()
        self.raise_()

    def _show_standing(self) -> None:
        self._timer.stop()
        self._chat = None
        if self._standing:
            self._show_message(*self._standing[-1], None)
        else:
            self.hide()

    def _on_closed(self) -> None:
        if not self._timer.isActive() and self._standing:
            self._standing.pop()
        self._show_standing()

    def keep_only(self, chats: Container[int]) -> None:
        """Hide a message whose action needs a chat that isn't one of these."""
        if self._chat is not None and self._chat not in chats:
            self._show_standing()

    def _act(self) -> None:
        action, self._action = self._action, None
        self._show_standing()
        if action is not None:
            action()

    def _place(self) -> None:
        place = QRect(self._below.mapTo(self._owner, QPoint(0, 0)), self._below.size())
        words = self._words.fontMetrics().horizontalAdvance(self._words.text())
        beside = [self._close, *([self._button] if self._action else [])]
        rim = self.width() - self.contentsRect().width() + RIM
        around = sum(each.sizeHint().width() + GAP for each in beside) + rim + SPARE
        self.setFixedWidth(min(place.width(), words + around))
        self.setFixedHeight(self.heightForWidth(self.width()))
        left = place.center().x() - self.width() // 2
        self.move(left, place.top() - self.height() - MARGIN)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        moved = event.type() in (QEvent.Type.Resize, QEvent.Type.Move)
        if moved and self.isVisible():
            self._place()
        return super().eventFilter(watched, event)
