"""Numbers of replies over the shown chat and over days, and the chart on the Context page."""

from __future__ import annotations

import math
import sqlite3
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QComboBox, QSizePolicy, QWidget

from core.api.stats import RequestStats
from desktop import theme
from desktop.chat.shown_chat import ShownChat
from desktop.chat.transcript import LiveReply
from desktop.i18n import tr
from desktop.numbers import format_count, format_seconds, format_speed
from desktop.services import Controller, Services
from desktop.store.tables import fields
from desktop.store.tables.records import Reply
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Label, fit_box, named

Metric = Literal["first", "speed", "reuse", "saved"]
Span = Literal["chat", "days"]

DAYS = 14
DAY_S = 86_400.0
WEEK_DAYS = 7
# The speed of reading is taken from the last month.
KNOWN_DAYS = 30
# Shorter reads are mostly overhead.
LEAST_READ = 128
# A bar of more replies would be thinner than the gap.
MOST_REPLIES = 60

SINCE = """
SELECT created, model,
json_extract(stats, '$.prompt_tokens'), json_extract(stats, '$.reused_tokens'),
json_extract(stats, '$.evaluated_tokens'), json_extract(stats, '$.ttft_s'),
json_extract(stats, '$.prefill_s'), json_extract(stats, '$.decode_tokens_per_s')
FROM (SELECT m.created, r.model,
      CASE WHEN typeof(r.stats) = 'text' AND json_valid(r.stats) THEN r.stats ELSE '{}' END AS stats
      FROM messages AS m JOIN replies AS r ON r.message = m.id
      WHERE m.created >= ? AND r.state != 'running' AND r.stats IS NOT NULL)
WHERE json_extract(stats, '$.remote') IS NULL
"""


class ReplyNumbers(NamedTuple):
    """A reply written on this computer. Times are in seconds, None if unknown."""

    created: float
    model: str
    prompt: int
    reused: int
    evaluated: int
    first: float | None
    prefill: float | None
    speed: float | None


class Point(NamedTuple):
    """A bar: its height, None if unknown, and its words."""

    value: float | None
    words: str


def numbers_since(connection: sqlite3.Connection, moment: float) -> list[ReplyNumbers]:
    """A reply that a fork copied counts once."""
    found = (
        ReplyNumbers(
            fields.moment(created),
            model if isinstance(model, str) else "",
            *(fields.whole(each) or 0 for each in numbers[:3]),
            *(_finite(each) for each in numbers[3:]),
        )
        for created, model, *numbers in connection.execute(SINCE, (moment,))
    )
    return list(dict.fromkeys(found))


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def numbers_of(created: float, model: str, stats: RequestStats) -> ReplyNumbers:
    return ReplyNumbers(
        created,
        model,
        stats.prompt_tokens,
        stats.reused_tokens,
        stats.evaluated_tokens,
        stats.ttft_s,
        stats.prefill_s,
        stats.decode_tokens_per_s,
    )


def seconds_per_token(replies: Iterable[ReplyNumbers]) -> dict[str, float]:
    """Keyed by model."""
    sums: dict[str, tuple[float, int]] = {}
    for each in replies:
        if each.prefill and each.evaluated >= LEAST_READ:
            seconds, tokens = sums.get(each.model, (0.0, 0))
            sums[each.model] = seconds + each.prefill, tokens + each.evaluated
    return {model: seconds / tokens for model, (seconds, tokens) in sums.items()}


def value_of(
    metric: Metric, replies: Sequence[ReplyNumbers], paces: Mapping[str, float]
) -> float | None:
    """One reply's value, or the median, share or sum of several."""
    if metric == "saved":
        known = [each.reused * paces[each.model] for each in replies if each.model in paces]
        return sum(known) if known else None
    if metric == "reuse":
        prompt = sum(each.prompt for each in replies)
        return 100 * sum(each.reused for each in replies) / prompt if prompt else None
    times = [each.first if metric == "first" else each.speed for each in replies]
    known = [each for each in times if each is not None]
    return statistics.median(known) if known else None


def value_words(metric: Metric, value: float | None) -> str:
    if value is None:
        return tr("not known")
    match metric:
        case "speed":
            return format_speed(value)
        case "reuse":
            return tr("{percent} %").format(percent=format_count(round(value)))
        case _:
            return format_seconds(value)


class ChartsController(Controller):
    changed = Signal()

    def __init__(self, services: Services, chat: ShownChat) -> None:
        super().__init__(services)
        self._transcript = chat.transcript
        # Of the last month, read once and then added to.
        self._known: list[ReplyNumbers] = []
        self._paces: dict[str, float] = {}
        chat.replies.ended.connect(self._on_end)
        for signal in (self._transcript.chat_changed, self._transcript.rows_replaced):
            signal.connect(self.changed)

    def read(self) -> None:
        self._tasks.spawn(self._read(), tr("Reading the numbers of replies"))

    def points(self, metric: Metric, span: Span) -> list[Point]:
        paces = seconds_per_token(self._shown()) | self._paces
        return self._of_days(metric, paces) if span == "days" else self._of_chat(metric, paces)

    def saved_in_a_week(self) -> float:
        """Seconds that reading the reused tokens would have taken."""
        since = time.time() - WEEK_DAYS * DAY_S
        week = [each for each in self._known if each.created >= since]
        return value_of("saved", week, self._paces) or 0.0

    def _shown(self) -> list[ReplyNumbers]:
        rows = [row.message for row in self._transcript.rows if row.live is None]
        return [
            numbers_of(each.created, each.reply.model, each.reply.stats)
            for each in rows
            if each.reply and each.reply.stats and each.reply.stats.remote is None
        ]

    def _of_chat(self, metric: Metric, paces: Mapping[str, float]) -> list[Point]:
        shown = list(enumerate(self._shown(), 1))[-MOST_REPLIES:]
        words = tr("Reply {number}: {value}")
        found = [(number, value_of(metric, [each], paces)) for number, each in shown]
        return [
            Point(value, words.format(number=number, value=value_words(metric, value)))
            for number, value in found
        ]

    def _of_days(self, metric: Metric, paces: Mapping[str, float]) -> list[Point]:
        today = datetime.fromtimestamp(time.time()).date()
        days = [today - timedelta(days=back) for back in reversed(range(DAYS))]
        by_day: dict[object, list[ReplyNumbers]] = {day: [] for day in days}
        for each in self._known:
            by_day.get(datetime.fromtimestamp(each.created).date(), []).append(each)
        found = []
        for day in days:
            value = value_of(metric, by_day[day], paces)
            said = value_words(metric, value) if by_day[day] else tr("no replies")
            found.append(Point(value, f"{day.day} {day:%B}: {said}"))
        return found

    async def _read(self) -> None:
        since = time.time() - KNOWN_DAYS * DAY_S
        self._take(await self._database.run(numbers_since, since))

    def _on_end(self, _live: LiveReply, _text: str, reply: Reply) -> None:
        if reply.stats is not None and reply.stats.remote is None:
            self._take([*self._known, numbers_of(time.time(), reply.model, reply.stats)])

    def _take(self, known: list[ReplyNumbers]) -> None:
        self._known, self._paces = known, seconds_per_token(known)
        self.changed.emit()


HEIGHT = 84
# Of the widest bar, and between two.
WIDEST, GAP = 26.0, 2.0
# A bar of anything at all can be seen.
LOWEST = 2.0
CORNER = 2.0
UNCHOSEN_OPACITY = 0.5


class ChartBox(QWidget):
    def __init__(self, charts: ChartsController) -> None:
        super().__init__()
        self.setObjectName("chartBox")
        self._charts = charts
        self._metric = _box(
            "chartMetric",
            tr("Number that the chart shows"),
            {
                tr("First token"): "first",
                tr("Speed"): "speed",
                tr("Reused"): "reuse",
                tr("Reading saved"): "saved",
            },
        )
        spans = {tr("This chat"): "chat", tr("Days"): "days"}
        self._span = _box("chartSpan", tr("Time that the chart shows"), spans)
        self.chart = named(Chart(), "chart")
        self._words = Label(name="chartWords", style="muted small", wraps=True)
        self._saved = Label(name="chartSaved", wraps=True)
        choices = row((self._metric, 1), (self._span, 1), spacing=6)
        column(self._saved, choices, self.chart, self._words, of=self, spacing=6)
        for box in (self._metric, self._span):
            box.currentIndexChanged.connect(self._show)
        self.chart.chosen.connect(self._words.setText)
        charts.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        metric: Metric = self._metric.currentData()
        span: Span = self._span.currentData()
        title = f"{self._metric.currentText()}, {self._span.currentText()}"
        top = 100.0 if metric == "reuse" else None
        self.chart.show_points(self._charts.points(metric, span), title, top)
        saved = self._charts.saved_in_a_week()
        words = tr("Last 7 days: about {time} of reading saved.")
        self._saved.setText(words.format(time=format_seconds(saved)) if saved else "")
        self._saved.setVisible(bool(saved))
        # Nothing was written on this computer yet.
        self.setVisible(bool(saved or self._charts.points("speed", "chat")))


class Chart(QWidget):
    # The words of the chosen bar.
    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._points: list[Point] = []
        # None is the last bar.
        self._at: int | None = None
        self._title = ""
        self._top: float | None = None
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.signals().changed.connect(self.update)

    def show_points(self, points: Sequence[Point], title: str, top: float | None = None) -> None:
        """`top` is the value of a full bar; None is the highest value."""
        if list(points) == self._points and title == self._title:
            return
        self._points, self._title, self._top = list(points), title, top
        self._at = None
        self._tell()

    @property
    def words(self) -> str:
        return self._points[self._place].words if self._points else tr("No replies yet.")

    @property
    def _place(self) -> int:
        return len(self._points) - 1 if self._at is None else self._at

    def _tell(self) -> None:
        self.setAccessibleName(f"{self._title}. {self.words}")
        self.setAccessibleDescription("; ".join(point.words for point in self._points))
        self.chosen.emit(self.words)
        self.update()

    def _choose(self, place: int) -> None:
        if self._points:
            self._at = min(max(place, 0), len(self._points) - 1)
            self._tell()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = Qt.Key
        match event.key():
            case keys.Key_Left:
                self._choose(self._place - 1)
            case keys.Key_Right:
                self._choose(self._place + 1)
            case keys.Key_Home:
                self._choose(0)
            case keys.Key_End:
                self._choose(len(self._points) - 1)
            case _:
                super().keyPressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        x = event.position().x()
        found = [at for at in range(len(self._points)) if self.slot(at).left() <= x]
        if found:
            self._choose(found[-1])

    def leaveEvent(self, event: QEvent) -> None:
        if not self.hasFocus():
            self._at = None
            self._tell()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(240, theme.px(HEIGHT))

    def slot(self, place: int) -> QRectF:
        """The place of a bar over the whole height."""
        width = min(WIDEST, (self.width() - 2 * GAP) / max(1, len(self._points)))
        return QRectF(GAP + place * width, 0, max(1.0, width - GAP), self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, table = QPainter(self), theme.colours()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        floor = self.height() - GAP
        painter.setPen(QPen(QColor(table.border_strong), 1))
        painter.drawLine(0, int(floor), self.width(), int(floor))
        most = self._top or max((point.value or 0.0 for point in self._points), default=0.0)
        for place, point in enumerate(self._points):
            if point.value is None:
                continue
            share = point.value / most if most else 0.0
            height = max(LOWEST, share * (floor - 2 * GAP))
            bar = self.slot(place)
            bar.setTop(floor - height)
            bar.setBottom(floor)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(table.accent))
            painter.setOpacity(1.0 if place == self._place else UNCHOSEN_OPACITY)
            painter.drawRoundedRect(bar, CORNER, CORNER)
        painter.setOpacity(1.0)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(table.accent), 1))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)


def _box(name: str, spoken: str, entries: dict[str, str]) -> QComboBox:
    box = fit_box(named(QComboBox(), name, spoken), 6)
    for words, value in entries.items():
        box.addItem(words, value)
    return box
