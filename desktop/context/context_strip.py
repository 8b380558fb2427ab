"""The context drawn to scale: how full it is, the used part by where it lies, and the legend.

Leaves painting to FillBar, ContextBar and LegendEntry, words to presentation.strip_words.
"""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from desktop.context.context_bar import ContextBar
from desktop.context.context_view import Strip
from desktop.context.fill_bar import FillBar
from desktop.context.legend import Legend
from desktop.context.strip_layout import room_is_cut
from desktop.context.strip_words import asked_legend, describe_strip, where_legend
from desktop.widgets.plain import Label
from desktop.words import context as words

FILL_HEIGHT = 5


class ContextStrip(QWidget):
    """Shows where each part of the context lives, what the last request did with it, and where
    checkpoints lie. Hidden while nothing is known of a context."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fill = FillBar(FILL_HEIGHT, self)
        self._fill.setObjectName("contextFill")
        self._fill.setAccessibleName(words.FILL_SPOKEN)
        self._bar = ContextBar(self)
        self._bar.setObjectName("contextBar")
        self._legend = Legend(self)
        self._cut = Label(words.USED_PART, self, name="contextUsedPart", style="muted small")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for widget in (self._fill, self._bar, self._cut, self._legend):
            layout.addWidget(widget)
        self.setAccessibleName(words.STRIP_SPOKEN)
        self.show_strip(Strip())

    def show_strip(self, strip: Strip) -> None:
        """Show a context."""
        used, limit = strip.num_tokens if strip.known else 0, strip.context_length
        self._fill.show_shares([("slab", used)] if limit else [], limit)
        self._fill.setAccessibleDescription(words.held_words(used, limit))
        self._bar.show_strip(strip)
        self._cut.setVisible(room_is_cut(strip.num_tokens, strip.context_length))
        self._legend.show_words({**where_legend(strip), **asked_legend(strip)})
        self.setAccessibleDescription(describe_strip(strip))
        self.setVisible(bool(strip.parts))

    def bar(self) -> ContextBar:
        """The painted strip."""
        return self._bar

    def legend(self) -> str:
        """The legend in words."""
        return self._legend.text()
