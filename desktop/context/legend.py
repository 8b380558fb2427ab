"""A legend: entries in columns, only of what there is."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtWidgets import QGridLayout, QWidget

from desktop.context.legend_entry import LegendEntry
from desktop.context.strip_words import LegendKind

COLUMNS = 2


class Legend(QWidget):
    """Shows words by kind; hidden while there are none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries: dict[LegendKind, LegendEntry] = {}
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(4, 0, 4, 0)
        self._layout.setHorizontalSpacing(12)
        self._layout.setVerticalSpacing(2)
        self.hide()

    def show_words(self, words: Mapping[LegendKind, str]) -> None:
        """Show what each kind means."""
        if list(words) != list(self._entries):
            self._rebuild(list(words))
        for kind, text in words.items():
            self._entries[kind].set_text(text)
        self.setVisible(bool(words))

    def text(self) -> str:
        """The legend in words."""
        return ", ".join(entry.text() for entry in self._entries.values())

    def _rebuild(self, kinds: list[LegendKind]) -> None:
        for entry in self._entries.values():
            self._layout.removeWidget(entry)
            entry.hide()
            entry.deleteLater()
        self._entries = {kind: LegendEntry(kind, self, tick=kind == "checkpoint") for kind in kinds}
        for number, entry in enumerate(self._entries.values()):
            self._layout.addWidget(entry, number // COLUMNS, number % COLUMNS)
