"""The painted strip, with a bar for how full the context is and a legend."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QHelpEvent,
    QLinearGradient,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from core.api.stats import ContextPart
from desktop import theme
from desktop.context import strip as words
from desktop.context.fills import (
    TICK_HALF_WIDTH,
    TICK_HEIGHT,
    Fill,
    FillBar,
    LegendEntry,
    fill,
    hatch,
    mark_kept,
    tick_shape,
)
from desktop.context.strip import Strip, StripLayout, lay_out, room_is_cut, tier_of
from desktop.i18n import tr
from desktop.numbers import count_of, format_count
from desktop.widgets.layouts import column
from desktop.widgets.plain import Label, named, show_tip

FILL_HEIGHT = 5
BAR_HEIGHT = 24
# The lower band, and its distance from the upper.
BAND_TOP = TICK_HEIGHT + BAR_HEIGHT + 3
BAND_HEIGHT = 6
CORNER = 6.0
# Light enough to mean "still to be read", dark enough to show the kind.
UNREAD_OPACITY = 0.3
LEGEND_COLUMNS = 2


class ContextStrip(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._fill = named(FillBar(FILL_HEIGHT), "contextFill", tr("How full the context is"))
        self.bar = named(ContextBar(), "contextBar")
        self.legend = Legend()
        used_part = tr("The strip shows the used part.")
        self._cut = Label(used_part, name="contextUsedPart", style="muted small")
        column(self._fill, self.bar, self._cut, self.legend, of=self, spacing=6)
        self.setAccessibleName(tr("Context"))
        self.show_strip(Strip())

    def show_strip(self, strip: Strip) -> None:
        used, limit = strip.num_tokens if strip.known else 0, strip.context_length
        self._fill.show_shares([("slab", used)] if limit else [], limit)
        self._fill.setAccessibleDescription(tokens_words(used, limit))
        self.bar.show_strip(strip)
        self._cut.setVisible(room_is_cut(strip.num_tokens, strip.context_length))
        self.legend.show_words({**words.where_legend(strip), **words.asked_legend(strip)})
        self.setAccessibleDescription(words.describe_strip(strip))
        self.setVisible(bool(strip.parts))


def tokens_words(used: int, limit: int) -> str:
    words = tr("{used} of {limit} tokens")
    return words.format(used=format_count(used), limit=format_count(limit))


class ContextBar(QWidget):
    """Above, where each part is stored; below, what the last request did.

    Images are hatched, checkpoints ticked, parts that a restart keeps underlined.
    """

    def __init__(self) -> None:
        super().__init__()
        self._strip = Strip()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        theme.signals().changed.connect(self.update)

    def show_strip(self, strip: Strip) -> None:
        self._strip = strip
        self.update()

    def strip_layout(self) -> StripLayout:
        # The ticks at both ends need room for their halves.
        width = self.width() - 2 * TICK_HALF_WIDTH
        return lay_out(self._strip.parts, self._strip.context_length, width)

    def words_at(self, x: float) -> str:
        layout = self.strip_layout()
        box = layout.box_at(x - TICK_HALF_WIDTH)
        if box is not None:
            return words.part_words(box.part, self._strip)
        if not layout.boxes:
            return words.describe_strip(Strip())
        free = count_of(max(0, self._strip.context_length - self._strip.num_tokens), "more token")
        scale = tr("(not to scale)") if layout.room_is_cut else ""
        return f"{tr('Room for {tokens}').format(tokens=free)} {scale}".strip()

    def _paint_bar(self, painter: QPainter, layout: StripLayout) -> None:
        bar = QRectF(0, 0, layout.width, BAR_HEIGHT)
        outline = QPainterPath()
        outline.addRoundedRect(bar, CORNER, CORNER)
        painter.setClipPath(outline)
        painter.fillRect(bar, self._room_brush(layout))
        for box in layout.boxes:
            self._paint_part(painter, QRectF(box.left, 0, box.width, BAR_HEIGHT), box.part)
        painter.setClipping(False)

    def _paint_part(self, painter: QPainter, area: QRectF, part: ContextPart) -> None:
        read = self._is_read(part)
        painter.setOpacity(1.0 if read else UNREAD_OPACITY)
        fill(painter, area, tier_of(part, self._strip))
        if part.kind == "image":
            hatch(painter, area)
        if part.on_disk and self._strip.known and read:
            mark_kept(painter, area)
        painter.setOpacity(1.0)
        # A seam separates neighbours of one colour, if there is room.
        if area.width() >= 8:
            seam = QRectF(area.right() - 1, 0, 1, BAR_HEIGHT)
            painter.fillRect(seam, self.palette().window())

    def _paint_band(self, painter: QPainter, layout: StripLayout) -> None:
        for part in self._strip.asked:
            left, right = layout.place_of(part.start), layout.place_of(part.end)
            painter.setOpacity(1.0 if self._is_read(part) else UNREAD_OPACITY)
            # Tokens that were read have a thicker band, whatever its colour.
            height = BAND_HEIGHT / 3 if part.source == "reused" else BAND_HEIGHT
            fill(painter, QRectF(left, 0, max(1.0, right - left), height), part.source)
        painter.setOpacity(1.0)

    def _is_read(self, part: ContextPart) -> bool:
        done = self._strip.done
        return done is None or part.source == "reused" or part.end <= done

    def _room_brush(self, layout: StripLayout) -> QBrush:
        room = QColor(theme.colours().room)
        if not layout.room_is_cut:
            return QBrush(room)
        fading = QLinearGradient(layout.used, 0, layout.width, 0)
        faint = QColor(room)
        faint.setAlphaF(0.15)
        fading.setColorAt(0, room)
        fading.setColorAt(1, faint)
        return QBrush(fading)

    def _paint_ticks(self, painter: QPainter, layout: StripLayout) -> None:
        table = theme.colours()
        line = QColor(table.checkpoint)
        line.setAlphaF(0.6)
        painter.setBrush(QColor(table.checkpoint))
        for checkpoint in self._strip.checkpoints:
            x = layout.place_of(checkpoint.token)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawPolygon(tick_shape(QPointF(x, TICK_HEIGHT)))
            painter.setPen(QPen(line, 1))
            painter.drawLine(QPointF(x, TICK_HEIGHT - 1), QPointF(x, TICK_HEIGHT + BAR_HEIGHT))

    def sizeHint(self) -> QSize:
        return QSize(260, BAND_TOP + BAND_HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, BAND_TOP + BAND_HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        layout = self.strip_layout()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(TICK_HALF_WIDTH, TICK_HEIGHT)
        self._paint_bar(painter, layout)
        painter.translate(0, BAND_TOP - TICK_HEIGHT)
        self._paint_band(painter, layout)
        painter.translate(0, -BAND_TOP)
        self._paint_ticks(painter, layout)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            show_tip(event.globalPos(), self.words_at(event.pos().x()), self)
            return True
        return super().event(event)


class Legend(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[Fill, LegendEntry] = {}
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(4, 0, 4, 0)
        self._layout.setHorizontalSpacing(12)
        self._layout.setVerticalSpacing(2)
        for place in range(LEGEND_COLUMNS):
            self._layout.setColumnStretch(place, 1)
        self.hide()

    def show_words(self, words: Mapping[Fill, str]) -> None:
        if list(words) != list(self._entries):
            self._rebuild(list(words))
        for kind, text in words.items():
            self._entries[kind].set_text(text)
        self.setVisible(bool(words))

    def text(self) -> str:
        return ", ".join(entry.text() for entry in self._entries.values())

    def _rebuild(self, kinds: list[Fill]) -> None:
        for entry in self._entries.values():
            self._layout.removeWidget(entry)
            entry.hide()
            entry.deleteLater()
        self._entries = {kind: LegendEntry(kind, tick=kind == "checkpoint") for kind in kinds}
        for number, entry in enumerate(self._entries.values()):
            self._layout.addWidget(entry, number // LEGEND_COLUMNS, number % LEGEND_COLUMNS)
