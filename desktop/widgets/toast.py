"""A short message over the conversation, with one thing to do about it.

News go by themselves. Warnings and errors stay until they are closed: a reason that vanishes while
nobody looks is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Literal

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from desktop import theme
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Button, Label
from desktop.widgets.plain_text import shortened
from desktop.words.frame import CLOSE_MESSAGE, MESSAGE

SHOWN_FOR_MS = 8_000
MARGIN = 10
GAP = 12
# Left and right of all, within what the style sheet leaves free.
RIM = 14 + 8
# A label breaks its line where there is just room.
SPARE = 2
MOST_CHARACTERS = 400
# Of so many things that went wrong the oldest are no news.
MOST_STANDING = 20

Kind = Literal["info", "warning", "error"]


class Toast(QFrame):
    """Shows one message at a time over `owner`, on top of `below`; the next one takes its place.

    Warnings and errors come back after what was said over them.
    """

    def __init__(self, owner: QWidget, below: QWidget) -> None:
        super().__init__(owner)
        self._owner = owner
        self._below = below
        self.setObjectName("toast")
        self.setAccessibleName(MESSAGE)
        self._action: Callable[[], None] | None = None
        self._chat: int | None = None
        # What went wrong and was not closed, oldest first: words and kind.
        self._standing: list[tuple[str, Kind]] = []
        self._words = Label(name="toastText", wraps=True)
        self._button = Button(name="toastAction")
        self._button.clicked.connect(self._act)
        self._close = IconButton("close", CLOSE_MESSAGE, name="toastClose")
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
        """Show `words`; `action` is a button's text and what it does, for news, and `chat` the chat
        it needs."""
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
        # The style sheet looks at this property for the parts too.
        for widget in (self, self._words, self._button):
            theme.restyle(widget)
        self._close.setIcon(theme.icon("close", "window" if kind == "info" else "text"))
        self._place()
        self.show()
        self.raise_()

    def _show_standing(self) -> None:
        """Show what went wrong and was not closed, or nothing."""
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
        """Hide a message whose action needs a chat that is not among these."""
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
