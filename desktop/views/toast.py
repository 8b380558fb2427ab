"""A short message over the conversation, with one thing to do about it; goes by itself."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Literal

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from desktop.common import theme
from desktop.presentation.plain_text import shortened
from desktop.views.widgets.icon_button import IconButton
from desktop.views.widgets.plain import Button, Label
from desktop.words.frame import CLOSE_MESSAGE, MESSAGE

SHOWN_FOR_MS = 8_000
MARGIN = 10
GAP = 12
# Left and right of all, within what the style sheet leaves free.
RIM = 14 + 8
# A label breaks its line where there is just room.
SPARE = 2
MOST_CHARACTERS = 400


class Toast(QFrame):
    """Shows one message at a time over `owner`, on top of `below`; the next one takes its place."""

    def __init__(self, owner: QWidget, below: QWidget) -> None:
        super().__init__(owner)
        self._owner = owner
        self._below = below
        self.setObjectName("toast")
        self.setAccessibleName(MESSAGE)
        self._action: Callable[[], None] | None = None
        self._chat: int | None = None
        self._words = Label(name="toastText", wraps=True)
        self._button = Button(name="toastAction")
        self._button.clicked.connect(self._act)
        self._close = IconButton("close", CLOSE_MESSAGE, name="toastClose")
        self._close.clicked.connect(self.hide)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(14, 8, 8, 8)
        layout.setSpacing(GAP)
        layout.addWidget(self._words, 1)
        layout.addWidget(self._button)
        layout.addWidget(self._close)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.hide)
        below.installEventFilter(self)
        self.hide()

    def say(
        self,
        words: str,
        kind: Literal["info", "warning", "error"] = "info",
        action: tuple[str, Callable[[], None]] | None = None,
        chat: int | None = None,
    ) -> None:
        """Show `words`; `action` is a button's text and what it does, `chat` the chat it needs."""
        self._chat = chat
        words = shortened(words, MOST_CHARACTERS)
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
        self._timer.start(SHOWN_FOR_MS)

    def keep_only(self, chats: Container[int]) -> None:
        """Hide a message whose action needs a chat that is not among these."""
        if self._chat is not None and self._chat not in chats:
            self.hide()

    def _act(self) -> None:
        action, self._action = self._action, None
        self.hide()
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
