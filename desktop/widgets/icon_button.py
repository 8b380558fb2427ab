"""Square buttons with one of the app's icons, named in words."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from desktop import theme
from desktop.i18n import tr
from desktop.widgets.plain import ToolButton, set_tip


class IconButton(ToolButton):
    """`words` are its tool tip and accessible name."""

    def __init__(
        self,
        icon: str,
        words: str,
        parent: QWidget | None = None,
        *,
        name: str = "",
        pixels: int = 16,
    ) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self._icon, self._pixels = icon, pixels
        self.setAutoRaise(True)
        # A click leaves the focus where the user was typing.
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.set_words(words)
        self._draw()
        theme.signals().changed.connect(self._draw)

    def set_icon(self, icon: str) -> None:
        if icon != self._icon:
            self._icon = icon
            self._draw()

    def set_words(self, words: str) -> None:
        set_tip(self, words)
        self.setAccessibleName(words)

    def _draw(self) -> None:
        self.setIconSize(theme.icon_size(self._pixels))
        self.setIcon(theme.icon(self._icon))


COPIED_MS = 1_500


class CopyButton(IconButton):
    def __init__(self, words: str, parent: QWidget | None = None, icon: str = "copy") -> None:
        super().__init__(icon, words, parent)
        self._offer, self._offer_icon = words, icon
        self._copied = QTimer(self, singleShot=True, interval=COPIED_MS)
        self._copied.timeout.connect(self._offer_again)

    def copy_text(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self.say_copied()

    def say_copied(self) -> None:
        self.set_icon("check")
        self.set_words(tr("Copied"))
        self._copied.start()

    def _offer_again(self) -> None:
        self.set_icon(self._offer_icon)
        self.set_words(self._offer)
