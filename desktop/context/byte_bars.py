"""What the cache holds, place by place: a stacked bar against the budget, each class in numbers.

Leaves which class lies where to presentation.byte_stores.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from core.api.stats import CacheBytes
from desktop.context.byte_stores import TITLES, ByteStore, PlaceKind, Share, stores
from desktop.context.fill_bar import FillBar
from desktop.context.legend_entry import LegendEntry
from desktop.numbers import format_bytes
from desktop.widgets.plain import Label, set_tip

BAR_HEIGHT = 10
PLACES: tuple[PlaceKind, ...] = ("host", "device", "disk")


class ByteBars(QWidget):
    """All places, hidden while nothing is known of them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._places = {place: PlaceBytes(place, self) for place in PLACES}
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(12)
        for widget in self._places.values():
            layout.addWidget(widget)
        self.show_bytes(None)

    def show_bytes(self, bytes_held: CacheBytes | None) -> None:
        """Show the engine's totals; None is not known."""
        found = stores(bytes_held) if bytes_held is not None else {}
        for place, widget in self._places.items():
            widget.setVisible(place in found)
            if place in found:
                widget.show_store(found[place])
        self.setVisible(bool(found))


class PlaceBytes(QWidget):
    """One place: title and numbers, the bar, and a line for each class."""

    def __init__(self, place: PlaceKind, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(f"bytes{place.capitalize()}")
        self.setAccessibleName(TITLES[place])
        self._words = Label(parent=self, name=f"bytes{place.capitalize()}Words")
        self._words.setAccessibleName(TITLES[place])
        self._bar = FillBar(BAR_HEIGHT, self)
        self._lines: dict[str, tuple[LegendEntry, Label]] = {}
        self._grid = QGridLayout()
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        head = QHBoxLayout()
        head.addWidget(Label(TITLES[place], self), 1)
        head.addWidget(self._words)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(head)
        layout.addWidget(self._bar)
        layout.addLayout(self._grid)

    def show_store(self, store: ByteStore) -> None:
        """Show what lies here."""
        self._words.setText(store.words())
        self.setAccessibleDescription(store.spoken())
        set_tip(self, store.spoken())
        self._bar.show_shares([(share.kind, share.size) for share in store.shares], store.budget)
        for share in store.shares:
            self._show_share(share)

    def _show_share(self, share: Share) -> None:
        if share.kind not in self._lines:
            entry, size = LegendEntry(share.kind, self), Label(parent=self, style="muted small")
            entry.set_text(share.name)
            size.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            line = self._grid.rowCount()
            self._grid.addWidget(entry, line, 0)
            self._grid.addWidget(size, line, 1)
            self._lines[share.kind] = entry, size
        for label in self._lines[share.kind]:
            label.setVisible(bool(share.size))
        self._lines[share.kind][1].setText(format_bytes(share.size))
