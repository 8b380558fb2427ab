"""The context drawn to scale, with its legends.

Leaves painting to ContextBar and LegendEntry, words to item_models.strip_words.
"""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from desktop.item_models.context_view import Strip
from desktop.item_models.strip_words import asked_legend, describe_strip, where_legend
from desktop.views.widgets.context_bar import ContextBar
from desktop.views.widgets.legend import Legend


class ContextStrip(QWidget):
    """Shows where each part of the context lives, what the last request did with it, and where
    checkpoints lie."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bar = ContextBar(self)
        self._bar.setObjectName("contextBar")
        self._where = Legend("Upper band: where it is", self)
        self._asked = Legend("Lower band: the last reply", self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for widget in (self._bar, self._where, self._asked):
            layout.addWidget(widget)
        self.setAccessibleName("Context")
        self.show_strip(Strip())

    def show_strip(self, strip: Strip) -> None:
        """Show a context."""
        self._bar.show_strip(strip)
        self._where.show_words(where_legend(strip))
        self._asked.show_words(asked_legend(strip))
        self.setAccessibleDescription(describe_strip(strip))

    def bar(self) -> ContextBar:
        """The painted strip."""
        return self._bar

    def legends(self) -> tuple[str, str]:
        """Both legends in words."""
        return self._where.text(), self._asked.text()
