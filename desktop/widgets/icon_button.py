"""A square button that shows one of the app's icons and is named in words.

Knows how to follow the theme and what a screen reader is told. Leaves what it does to its owner.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from desktop import theme
from desktop.widgets.plain import ToolButton, set_tip


class IconButton(ToolButton):
    """A tool button with an icon of the theme; `words` are its tooltip and its accessible name.

    The icon has `pixels` a side, and grows with the text.
    """

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
        # Tab reaches it, and a click leaves the focus where the user was typing.
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.set_words(words)
        self._draw()
        theme.signals().changed.connect(self._draw)

    def set_icon(self, icon: str) -> None:
        """Show another icon."""
        if icon != self._icon:
            self._icon = icon
            self._draw()

    def set_words(self, words: str) -> None:
        """Say what the button does."""
        set_tip(self, words)
        self.setAccessibleName(words)

    def _draw(self) -> None:
        self.setIconSize(theme.icon_size(self._pixels))
        self.setIcon(theme.icon(self._icon))
