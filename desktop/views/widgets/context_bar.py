"""The painted strip: the context to scale, its images hatched, its checkpoints ticked.

Knows colours and the words of a part's tooltip. Leaves where things lie to strip_layout, and the
legend to ContextStrip.
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
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from core.api.events import ContextPart, RequestStats
from desktop import theme
from desktop.item_models.wording import count_of, format_count
from desktop.views.widgets.strip_layout import StripLayout, lay_out

TICK_HEIGHT = 7
TICK_HALF_WIDTH = 4.0
BAR_HEIGHT = 24
CORNER = 6.0
# Light enough to be room for what is still to be read, dark enough to show its kind.
UNREAD_OPACITY = 0.3

_SOURCE_WORDS = {"reused": "reused", "evaluated": "read for this reply", "reply": "the reply"}


class ContextBar(QWidget):
    """Paints one request's context."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._stats: RequestStats | None = None
        self._done: int | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        theme.signals().changed.connect(self.update)

    def show_stats(self, stats: RequestStats | None, done: int | None) -> None:
        """Paint `stats`; what lies at or after token `done` is still to be read."""
        self._stats, self._done = stats, done
        self.update()

    def strip_layout(self) -> StripLayout:
        """Where everything lies at the present width."""
        stats = self._stats or RequestStats()
        # The ticks at both ends need room for their halves.
        return lay_out(stats.parts, stats.context_length, self.width() - 2 * TICK_HALF_WIDTH)

    def words_at(self, x: float) -> str:
        """What the tooltip says at a place."""
        layout = self.strip_layout()
        box = layout.box_at(x - TICK_HALF_WIDTH)
        if box is not None:
            return part_words(box.part)
        if self._stats is None or not layout.boxes:
            return "The context is empty."
        free = max(0, self._stats.context_length - layout.boxes[-1].part.end)
        scale = " (not to scale)" if layout.room_is_cut else ""
        return f"Room for {count_of(free, 'more token')}{scale}"

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
        table = theme.colours()
        painter.setOpacity(1.0 if self._is_read(part) else UNREAD_OPACITY)
        painter.fillRect(area, QColor(getattr(table, part.source)))
        if part.kind == "image":
            hatch = QColor(table.image)
            hatch.setAlphaF(0.55)
            painter.fillRect(area, QBrush(hatch, Qt.BrushStyle.BDiagPattern))
        painter.setOpacity(1.0)
        # A seam in the background's colour parts neighbours of one colour, where there is room.
        if area.width() >= 8:
            seam = QRectF(area.right() - 1, 0, 1, BAR_HEIGHT)
            painter.fillRect(seam, self.palette().window())

    def _is_read(self, part: ContextPart) -> bool:
        return self._done is None or part.source == "reused" or part.end <= self._done

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
        for checkpoint in self._stats.checkpoints if self._stats else ():
            x = layout.place_of(checkpoint.token)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawPolygon(tick_shape(QPointF(x, TICK_HEIGHT)))
            painter.setPen(QPen(line, 1))
            painter.drawLine(QPointF(x, TICK_HEIGHT - 1), QPointF(x, TICK_HEIGHT + BAR_HEIGHT))

    def sizeHint(self) -> QSize:
        return QSize(260, TICK_HEIGHT + BAR_HEIGHT + 1)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, TICK_HEIGHT + BAR_HEIGHT + 1)

    def paintEvent(self, event: QPaintEvent) -> None:
        layout = self.strip_layout()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(TICK_HALF_WIDTH, TICK_HEIGHT)
        self._paint_bar(painter, layout)
        painter.translate(0, -TICK_HEIGHT)
        self._paint_ticks(painter, layout)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.words_at(event.pos().x()), self)
            return True
        return super().event(event)


def tick_shape(tip: QPointF) -> QPolygonF:
    """The small flag of a checkpoint, pointing down at `tip`."""
    top = tip.y() - TICK_HEIGHT + 1
    return QPolygonF(
        [
            tip,
            QPointF(tip.x() - TICK_HALF_WIDTH, top),
            QPointF(tip.x() + TICK_HALF_WIDTH, top),
        ]
    )


def part_words(part: ContextPart) -> str:
    """A part in words: what it is, where it came from, and which tokens it holds."""
    kind = "Image" if part.kind == "image" else "Text"
    size = count_of(part.end - part.start, "token")
    first, last = format_count(part.start), format_count(part.end - 1)
    place = f"token {first}" if first == last else f"tokens {first} to {last}"
    return f"{kind}, {_SOURCE_WORDS[part.source]}: {size} ({place})"
