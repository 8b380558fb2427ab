"""The painted strip: above where each part lives, below it what the last request did with it.

Images are hatched, checkpoints ticked, what a restart keeps is underlined. Leaves where things lie
to strip_layout, fills to `fills`, words to `strip_words`, and the legend to ContextStrip.
"""

from __future__ import annotations

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
from PySide6.QtWidgets import QSizePolicy, QWidget

from core.api.stats import ContextPart
from desktop import theme
from desktop.context.context_view import Strip
from desktop.context.fills import (
    TICK_HALF_WIDTH,
    TICK_HEIGHT,
    fill,
    hatch,
    mark_kept,
    tick_shape,
)
from desktop.context.strip_layout import StripLayout, lay_out
from desktop.context.strip_words import part_words, tier_of
from desktop.widgets.plain import show_tip
from desktop.words import context as words

BAR_HEIGHT = 24
# The lower band, and its distance from the upper.
BAND_TOP = TICK_HEIGHT + BAR_HEIGHT + 3
BAND_HEIGHT = 6
CORNER = 6.0
# Light enough to be room for what is still to be read, dark enough to show its kind.
UNREAD_OPACITY = 0.3


class ContextBar(QWidget):
    """Paints one context."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._strip = Strip()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        theme.signals().changed.connect(self.update)

    def show_strip(self, strip: Strip) -> None:
        """Paint `strip`."""
        self._strip = strip
        self.update()

    def strip_layout(self) -> StripLayout:
        """Where everything lies at the present width."""
        # The ticks at both ends need room for their halves.
        width = self.width() - 2 * TICK_HALF_WIDTH
        return lay_out(self._strip.parts, self._strip.context_length, width)

    def words_at(self, x: float) -> str:
        """What the tooltip says at a place."""
        layout = self.strip_layout()
        box = layout.box_at(x - TICK_HALF_WIDTH)
        if box is not None:
            return part_words(box.part, self._strip)
        free = max(0, self._strip.context_length - self._strip.num_tokens)
        return words.room_words(free, not layout.room_is_cut) if layout.boxes else words.EMPTY

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
        # A seam in the background's colour parts neighbours of one colour, where there is room.
        if area.width() >= 8:
            seam = QRectF(area.right() - 1, 0, 1, BAR_HEIGHT)
            painter.fillRect(seam, self.palette().window())

    def _paint_band(self, painter: QPainter, layout: StripLayout) -> None:
        """What the last request reused, read and wrote, under the parts themselves."""
        for part in self._strip.asked:
            left, right = layout.place_of(part.start), layout.place_of(part.end)
            painter.setOpacity(1.0 if self._is_read(part) else UNREAD_OPACITY)
            # What was read is thicker than what was not, whatever its colour.
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
