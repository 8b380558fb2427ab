"""Fills of the strip and its legend, and the cache's bytes as bars.

Neighbouring kinds differ by pattern or lightness as well as by hue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from core.api.stats import CacheBytes
from desktop import theme
from desktop.i18n import tr
from desktop.numbers import format_bytes
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Label, named, set_tip

Fill = Literal[
    "slab",
    "memory",
    "disk",
    "unknown",
    "reused",
    "evaluated",
    "reply",
    "room",
    "image",
    "checkpoint",
    "kept",
    "moving",
]
TICK_HEIGHT = 7
TICK_HALF_WIDTH = 4.0
# The line along the lower edge of parts that a restart keeps.
KEPT_HEIGHT = 3
# Fills that are the colour of their name.
_PLAIN = ("slab", "memory", "reused", "evaluated", "reply", "room", "checkpoint")
# Drawn as a thin band in the strip, and in its legend.
_BAND = ("reused", "evaluated", "reply")
# Anything used is drawn at least this wide.
THINNEST = 2.0
BAR_HEIGHT = 10
PLACES = ("host", "device", "disk")


def fill(painter: QPainter, area: QRectF, kind: Fill) -> None:
    table = theme.colours()
    if kind in _PLAIN:
        painter.fillRect(area, QColor(getattr(table, kind)))
    elif kind == "disk":
        painter.fillRect(area, QColor(table.room))
        painter.fillRect(area, QBrush(QColor(table.disk), Qt.BrushStyle.Dense3Pattern))
    elif kind == "image":
        painter.fillRect(area, QColor(table.muted))
        hatch(painter, area)
    elif kind == "kept":
        painter.fillRect(area, QColor(table.room))
        mark_kept(painter, area)
    elif kind == "moving":
        painter.fillRect(area, QBrush(QColor(table.muted), Qt.BrushStyle.VerPattern))
    else:
        painter.fillRect(area, QColor(table.border_strong))


def hatch(painter: QPainter, area: QRectF) -> None:
    lines = QColor(theme.colours().image)
    lines.setAlphaF(0.55)
    painter.fillRect(area, QBrush(lines, Qt.BrushStyle.BDiagPattern))


def mark_kept(painter: QPainter, area: QRectF) -> None:
    table = theme.colours()
    line = QRectF(area.left(), area.bottom() - KEPT_HEIGHT, area.width(), KEPT_HEIGHT)
    # A seam sets the line off from any colour.
    painter.fillRect(line.adjusted(0, -1, 0, 0), QColor(table.image))
    painter.fillRect(line, QColor(table.checkpoint))


def tick_shape(tip: QPointF) -> QPolygonF:
    top = tip.y() - TICK_HEIGHT + 1
    left, right = tip.x() - TICK_HALF_WIDTH, tip.x() + TICK_HALF_WIDTH
    return QPolygonF([tip, QPointF(left, top), QPointF(right, top)])


class FillBar(QWidget):
    def __init__(self, height: int) -> None:
        super().__init__()
        self._height = height
        self._shares: list[tuple[Fill, float]] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.signals().changed.connect(self.update)

    def show_shares(self, shares: Sequence[tuple[Fill, int]], whole: int) -> None:
        """Shares of `whole`, or of their sum if that is larger."""
        whole = max(whole, sum(size for _, size in shares), 1)
        self._shares = [(kind, size / whole) for kind, size in shares if size]
        self.update()

    def widths(self) -> list[tuple[Fill, float]]:
        return [(kind, max(THINNEST, self.width() * share)) for kind, share in self._shares]

    def sizeHint(self) -> QSize:
        return QSize(200, self._height)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(QRectF(self.rect()), self._height / 2, self._height / 2)
        painter.setClipPath(outline)
        fill(painter, QRectF(self.rect()), "room")
        left = 0.0
        for kind, width in self.widths():
            fill(painter, QRectF(left, 0, width, self.height()), kind)
            left += width


class LegendEntry(QWidget):
    def __init__(self, kind: Fill, tick: bool = False) -> None:
        super().__init__()
        self._label = Label(style="muted small", wraps=True)
        row(_Swatch(kind, tick), (self._label, 1), of=self, spacing=7)

    def set_text(self, text: str) -> None:
        self._label.setText(text)

    def text(self) -> str:
        return self._label.text()


class _Swatch(QWidget):
    def __init__(self, kind: Fill, tick: bool) -> None:
        super().__init__()
        self._kind: Fill = kind
        self._tick = tick
        self.setFixedSize(QSize(12, 12))
        theme.signals().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._tick:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.colours().checkpoint))
            painter.drawPolygon(tick_shape(QPointF(6, 3 + TICK_HEIGHT)))
            return
        edge = 4 if self._kind in _BAND else 0.5
        area = QRectF(self.rect()).adjusted(0.5, edge, -0.5, -edge)
        outline = QPainterPath()
        outline.addRoundedRect(area, 3, 3)
        painter.setClipPath(outline)
        fill(painter, area, self._kind)


@dataclass(frozen=True, slots=True)
class Share:
    kind: Fill
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class ByteStore:
    """A `budget` of 0 is none."""

    title: str
    budget: int
    shares: tuple[Share, ...]

    def words(self) -> str:
        """1.2 GB of 6.2 GB"""
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
    """Graphics memory only if the model's device has its own."""
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
    def __init__(self) -> None:
        super().__init__()
        self._places = {place: PlaceBytes(place) for place in PLACES}
        column(*self._places.values(), of=self, spacing=12)
        self.show_bytes(None)

    def show_bytes(self, held: CacheBytes | None) -> None:
        found = stores(held) if held is not None else {}
        for place, widget in self._places.items():
            widget.setVisible(place in found)
            if place in found:
                widget.show_store(found[place])
        self.setVisible(bool(found))


class PlaceBytes(QWidget):
    def __init__(self, place: str) -> None:
        super().__init__()
        named(self, f"bytes{place.capitalize()}", place_title(place))
        self._words = Label(name=f"bytes{place.capitalize()}Words")
        self._words.setAccessibleName(place_title(place))
        self._bar = FillBar(BAR_HEIGHT)
        self._lines: dict[Fill, tuple[LegendEntry, Label]] = {}
        self._grid = QGridLayout()
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        head = row((Label(place_title(place)), 1), self._words)
        column(head, self._bar, self._grid, of=self, spacing=4)

    def show_store(self, store: ByteStore) -> None:
        self._words.setText(store.words())
        self.setAccessibleDescription(store.spoken())
        set_tip(self, store.spoken())
        self._bar.show_shares([(share.kind, share.size) for share in store.shares], store.budget)
        for share in store.shares:
            self._show_share(share)

    def _show_share(self, share: Share) -> None:
        if share.kind not in self._lines:
            entry, size = LegendEntry(share.kind), Label(style="muted small")
            entry.set_text(share.name)
            size.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            line = self._grid.rowCount()
            self._grid.addWidget(entry, line, 0)
            self._grid.addWidget(size, line, 1)
            self._lines[share.kind] = entry, size
        for label in self._lines[share.kind]:
            label.setVisible(bool(share.size))
        self._lines[share.kind][1].setText(format_bytes(share.size))
