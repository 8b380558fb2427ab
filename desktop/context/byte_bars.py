"""The cache's bytes by place and class: a bar against each budget, and each class in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from core.api.stats import CacheBytes
from desktop.context.fills import Fill, FillBar, LegendEntry
from desktop.i18n import tr
from desktop.numbers import format_bytes
from desktop.widgets.plain import Label, set_tip

BAR_HEIGHT = 10
PLACES = ("host", "device", "disk")


@dataclass(frozen=True, slots=True)
class Share:
    kind: Fill
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class ByteStore:
    """The bytes in one place; a `budget` of 0 is none."""

    title: str
    budget: int
    shares: tuple[Share, ...]

    def words(self) -> str:
        """Use and budget: 1.2 GB of 6.2 GB."""
        used = sum(share.size for share in self.shares)
        if not self.budget:
            return format_bytes(used) if used else tr("nothing is kept here")
        words = tr("{used} of {budget}")
        return words.format(used=format_bytes(used), budget=format_bytes(self.budget))

    def spoken(self) -> str:
        shares = ", ".join(
            f"{share.name} {format_bytes(share.size)}" for share in self.shares if share.size
        )
        return f"{self.title}: {self.words()}{shares and f': {shares}'}."


def place_title(place: str) -> str:
    return {"device": tr("Graphics memory"), "host": tr("Memory"), "disk": tr("Disk")}[place]


def stores(held: CacheBytes) -> dict[str, ByteStore]:
    """The places; graphics memory only if the model's device has its own memory."""
    slab = Share("slab", tr("Context in use now"), held.slab)
    host = [
        Share("memory", tr("Other contexts"), max(0, held.kv - held.slab)),
        Share("checkpoint", tr("Checkpoints"), held.checkpoints),
        Share("image", tr("Encoded pictures"), held.embeddings),
        Share("moving", tr("Being copied"), held.in_flight),
    ]
    found = {}
    if held.device_budget:
        found["device"] = ByteStore(place_title("device"), held.device_budget, (slab,))
    else:
        host.insert(0, slab)
    found["host"] = ByteStore(place_title("host"), held.host_budget, tuple(host))
    disk = Share("disk", tr("Contexts and pictures"), held.disk)
    found["disk"] = ByteStore(place_title("disk"), held.disk_budget, (disk,))
    return found


class ByteBars(QWidget):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._places = {place: PlaceBytes(place, self) for place in PLACES}
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(12)
        for widget in self._places.values():
            layout.addWidget(widget)
        self.show_bytes(None)

    def show_bytes(self, held: CacheBytes | None) -> None:
        found = stores(held) if held is not None else {}
        for place, widget in self._places.items():
            widget.setVisible(place in found)
            if place in found:
                widget.show_store(found[place])
        self.setVisible(bool(found))


class PlaceBytes(QWidget):
    def __init__(self, place: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(f"bytes{place.capitalize()}")
        self.setAccessibleName(place_title(place))
        self._words = Label(parent=self, name=f"bytes{place.capitalize()}Words")
        self._words.setAccessibleName(place_title(place))
        self._bar = FillBar(BAR_HEIGHT, self)
        self._lines: dict[Fill, tuple[LegendEntry, Label]] = {}
        self._grid = QGridLayout()
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        head = QHBoxLayout()
        head.addWidget(Label(place_title(place), self), 1)
        head.addWidget(self._words)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(head)
        layout.addWidget(self._bar)
        layout.addLayout(self._grid)

    def show_store(self, store: ByteStore) -> None:
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
