"""The window's three parts side by side; the right one folds by itself where there is no room.

Knows what the user wants shown and how narrow each part may be. What the parts are is the window's
business.
"""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QSettings, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QWidget

from desktop import theme

LEFT_PX, MIDDLE_PX, RIGHT_PX = 160, 370, 312
# Between both sides the conversation gets at least this, or one of them folds.
BETWEEN_PX = 460
FIRST_WIDTHS = (220, 730, 330)


class Sides(QSplitter):
    """Left, middle and right."""

    def __init__(self, left: QWidget, middle: QWidget, right: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setObjectName("splitter")
        self._left, self._right = left, right
        self._parts = ((left, LEFT_PX), (middle, MIDDLE_PX), (right, RIGHT_PX))
        self._wants_left = self._wants_right = True
        # Where there is room for one of the two only, it is the one that was asked for last.
        self._right_first = False
        for place, widget in enumerate((left, middle, right)):
            self.addWidget(widget)
            self.setStretchFactor(place, 1 if widget is middle else 0)
            self.setCollapsible(place, False)
        self.setSizes(FIRST_WIDTHS)
        theme.signals().changed.connect(self._on_theme)
        self._on_theme()

    def toggle_left(self) -> None:
        """Show or hide the left side."""
        self._wants_left, self._right_first = self._left.isHidden(), False
        self._fold()

    def toggle_right(self) -> None:
        """Show or hide the right side."""
        if self._right.isHidden():
            self.show_right()
        else:
            self._wants_right = False
            self._fold()

    def show_right(self) -> None:
        """Show the right side, in a narrow window instead of the left one."""
        self._wants_right = self._right_first = True
        lack = self._needed(MIDDLE_PX, RIGHT_PX) - self.width()
        if lack > 0:
            window = self.window()
            window.resize(window.width() + lack, window.height())
        self._fold()

    def save(self, kept: QSettings) -> None:
        """Remember the widths, and what the user wants shown."""
        kept.setValue("splitter", self.saveState())
        kept.setValue("chats", self._wants_left)
        kept.setValue("side", self._wants_right)

    def restore(self, kept: QSettings) -> None:
        """Be as it was when it was remembered."""
        widths = kept.value("splitter")
        if isinstance(widths, QByteArray):
            self.restoreState(widths)
        self._wants_left = bool(kept.value("chats", True, type=bool))
        self._wants_right = bool(kept.value("side", True, type=bool))
        self._fold()

    def _on_theme(self) -> None:
        """Larger text needs wider parts."""
        for part, least in self._parts:
            part.setMinimumWidth(_least(least))
        self.updateGeometry()
        self._fold()

    def _fold(self) -> None:
        """Show of what is wanted what there is room for."""
        left, right = self._wants_left, self._wants_right
        if left and right and self.width() < self._needed(LEFT_PX, BETWEEN_PX, RIGHT_PX):
            left, right = not self._right_first, self._right_first
        if right and self.width() < self._needed(MIDDLE_PX, RIGHT_PX):
            left, right = self._wants_left, False
        self._left.setVisible(left)
        self._right.setVisible(right)

    def _needed(self, *widths: int) -> int:
        return sum(map(_least, widths)) + (len(widths) - 1) * self.handleWidth()

    def minimumSizeHint(self) -> QSize:
        # What would not fit beside the others folds instead.
        return QSize(self._needed(LEFT_PX, MIDDLE_PX), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fold()
        super().resizeEvent(event)


def _least(width: int) -> int:
    """The least width of a part, in the size of text in force."""
    return max(width, theme.px(width))
