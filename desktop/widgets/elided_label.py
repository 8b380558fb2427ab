"""A line of text that ends in an ellipsis where there is no room for all of it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent

from desktop.widgets.plain import Label, set_tip
from desktop.widgets.plain_text import shortened

# More than the widest window shows.
LONGEST = 500


class ElidedLabel(Label):
    """A label that may be narrower than its text; the tip says all of it."""

    def set_words(self, words: str) -> None:
        """Say something else."""
        self.setText(words)
        set_tip(self, words)

    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(shortened(self.text(), LONGEST))
        return QSize(width + 1, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(40, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        shown = self.fontMetrics().elidedText(
            shortened(self.text(), LONGEST), Qt.TextElideMode.ElideRight, self.width()
        )
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        painter.drawText(self.rect(), int(self.alignment()), shown)
