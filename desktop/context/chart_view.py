"""The chart on the Context page: bars that keys and the pointer choose, and their words."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QComboBox, QSizePolicy, QWidget

from desktop import theme
from desktop.context.charts import ChartsController, Metric, Point, Span
from desktop.i18n import tr
from desktop.numbers import format_seconds
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Label, named

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
        """`top` is the value of a bar of full height, the highest value if it is None."""
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
    box = named(QComboBox(), name, spoken)
    # Long words are cut before the page is.
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(6)
    for words, value in entries.items():
        box.addItem(words, value)
    return box
