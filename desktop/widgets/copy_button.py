"""A button that copies, and says with a tick that it has."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from desktop.widgets.icon_button import IconButton
from desktop.words.conversation import COPIED

COPIED_MS = 1_500


class CopyButton(IconButton):
    """`words` say what it copies; copying itself is its owner's business."""

    def __init__(self, words: str, parent: QWidget | None = None, icon: str = "copy") -> None:
        super().__init__(icon, words, parent)
        self._offer, self._offer_icon = words, icon
        self._copied = QTimer(self, singleShot=True, interval=COPIED_MS)
        self._copied.timeout.connect(self._offer_again)

    def say_copied(self) -> None:
        """Show the tick for a moment."""
        self.set_icon("check")
        self.set_words(COPIED)
        self._copied.start()

    def _offer_again(self) -> None:
        self.set_icon(self._offer_icon)
        self.set_words(self._offer)
