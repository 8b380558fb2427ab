"""The context drawn to scale, with its legend.

Knows how to say in words what the strip shows, for the legend and for a screen reader. Leaves
painting to ContextBar and LegendEntry.
"""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from core.api.events import RequestStats
from desktop.item_models.wording import context_used, count_of, format_count
from desktop.views.widgets.context_bar import ContextBar
from desktop.views.widgets.legend_entry import LegendEntry, LegendKind

LEGEND_COLUMNS = 2


class ContextStrip(QWidget):
    """Shows which part of the context was reused, read or written, and where checkpoints lie."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bar = ContextBar(self)
        self._bar.setObjectName("contextBar")
        self._entries: dict[LegendKind, LegendEntry] = {}
        self._legend = QGridLayout()
        self._legend.setContentsMargins(4, 0, 4, 0)
        self._legend.setHorizontalSpacing(12)
        self._legend.setVerticalSpacing(2)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self._bar)
        layout.addLayout(self._legend)
        self.setAccessibleName("Context")
        self.show_stats(None)

    def show_stats(self, stats: RequestStats | None, done: int | None = None) -> None:
        """Show `stats`; with `done`, the prompt's tokens from there on are still to be read."""
        self._bar.show_stats(stats, done)
        self._show_legend(legend_words(stats) if stats else {})
        self.setAccessibleDescription(describe_context(stats))

    def bar(self) -> ContextBar:
        """The painted strip."""
        return self._bar

    def legend(self) -> str:
        """The legend in words."""
        return ", ".join(entry.text() for entry in self._entries.values())

    def _show_legend(self, words: Mapping[LegendKind, str]) -> None:
        if list(words) != list(self._entries):
            self._rebuild_legend(list(words))
        for kind, text in words.items():
            self._entries[kind].set_text(text)

    def _rebuild_legend(self, kinds: list[LegendKind]) -> None:
        for entry in self._entries.values():
            self._legend.removeWidget(entry)
            entry.hide()
            entry.deleteLater()
        self._entries = {kind: LegendEntry(kind, self) for kind in kinds}
        for number, entry in enumerate(self._entries.values()):
            self._legend.addWidget(entry, number // LEGEND_COLUMNS, number % LEGEND_COLUMNS)


def legend_words(stats: RequestStats) -> dict[LegendKind, str]:
    """What the legend says; only of what the strip shows."""
    free = max(0, stats.context_length - context_used(stats))
    words: dict[LegendKind, tuple[int, str]] = {
        "reused": (stats.reused_tokens, f"Reused {format_count(stats.reused_tokens)}"),
        "evaluated": (stats.evaluated_tokens, f"Read {format_count(stats.evaluated_tokens)}"),
        "reply": (stats.reply_tokens, f"Reply {format_count(stats.reply_tokens)}"),
        "room": (free, f"Free {format_count(free)}"),
        "image": (stats.images_in_prompt, count_of(stats.images_in_prompt, "image").capitalize()),
        "checkpoint": (len(stats.checkpoints), count_of(len(stats.checkpoints), "checkpoint")),
    }
    return {kind: text for kind, (count, text) in words.items() if count}


def describe_context(stats: RequestStats | None) -> str:
    """The whole strip in one or two sentences."""
    if stats is None or not context_used(stats):
        return "The context is empty."
    used = count_of(context_used(stats), "token")
    parts = ", ".join(legend_words(stats).values()).lower()
    return f"The context holds {used} of {format_count(stats.context_length)}: {parts}."
