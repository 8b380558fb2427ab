"""Parts of a reply that open: its numbers and its reasoning."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from core.api.stats import RequestStats
from desktop import numbers, theme
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, Label, named, set_tip
from desktop.widgets.value_grid import Row, ValueGrid

GAP = 4
# With less room each word would be on its own line.
LEAST_PX = 140


class NumbersLine(QWidget):
    def __init__(self, buttons: QWidget | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        # Buttons and numbers, hidden together while the reader is elsewhere.
        self.line = QWidget(self)
        self._text = Label(parent=self, name="numbersText", wraps=True, selectable=True)
        self._text.setProperty("class", "muted small")
        self._toggle = IconButton(
            "chevron_right", tr("Show all numbers of this reply"), self, name="numbersToggle"
        )
        self._toggle.setCheckable(True)
        self._toggle.toggled.connect(self._on_toggled)
        self._stats: RequestStats | None = None
        self._model, self._moment = "", 0.0
        self._buttons = buttons
        # Not known before the first layout.
        self._width: int | None = None
        # Twenty labels for each reply of a long chat would be slow; they are made on demand.
        self._details: ValueGrid | None = None
        self._lay_out(buttons)
        self.show_stats(None)

    def show_stats(self, stats: RequestStats | None, model: str = "", moment: float = 0.0) -> None:
        self._stats, self._model, self._moment = stats, model, moment
        words = numbers.numbers_text(stats) if stats is not None else ""
        set_tip(self._text, numbers.BETWEEN.join(filter(None, self._origin())))
        # Setting the same text would lay out the row again.
        if words != self._text.text():
            self._text.setText(words)
        self._toggle.setVisible(stats is not None)
        self.fit()
        if self._details is not None:
            self._show_details(self._details)

    def fit(self) -> None:
        """Hide the line if its buttons leave it no room."""
        parts = [each for each in (self._buttons, self._toggle) if each and not each.isHidden()]
        beside = sum(each.sizeHint().width() + GAP for each in parts)
        has_room = self._width is None or self._width - beside >= theme.px(LEAST_PX)
        # Centre the first line on the buttons.
        height = max((each.sizeHint().height() for each in parts), default=0)
        self._toggle.setMinimumHeight(height)
        above = max(0, height - self._text.fontMetrics().height()) // 2
        self._text.setContentsMargins(0, above, 0, 0)
        self._text.setVisible(self._stats is not None and has_room)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._width = event.size().width()
        self.fit()
        super().resizeEvent(event)

    def _show_details(self, details: ValueGrid) -> None:
        details.setVisible(self._stats is not None and self.is_open())
        stats = self._stats or RequestStats()
        written_by, written_at = self._origin()
        report = stats.remote
        known = {
            "numbersPromptTokens": report is None or report.prompt,
            "numbersReused": report is None or report.cached,
            "numbersEvaluated": report is None or report.cached,
            "numbersImagesReused": report is None,
            "numbersImagesEncoded": report is None,
            "numbersRestoredFrom": report is None,
            "numbersMiss": report is None,
        }
        for name, text in {
            "numbersModel": written_by,
            "numbersTime": written_at,
            "numbersPromptTokens": format_count(stats.prompt_tokens),
            "numbersReused": format_count(stats.reused_tokens),
            "numbersEvaluated": format_count(stats.evaluated_tokens),
            "numbersImagesReused": format_count(numbers.images_reused(stats)),
            "numbersImagesEncoded": format_count(stats.images_encoded),
            "numbersRestoredFrom": numbers.describe_restore(stats),
            "numbersFirstToken": numbers.first_token_text(stats),
            "numbersSpeed": numbers.speed_text(stats),
            "numbersDrafts": numbers.describe_drafts(stats),
            "numbersReplyTokens": format_count(stats.reply_tokens),
            "numbersMiss": numbers.describe_reading(stats),
        }.items():
            details.show_value(name, text if known.get(name, True) else "")

    def _origin(self) -> tuple[str, str]:
        return self._model, numbers.format_moment(self._moment)

    def text(self) -> str:
        return self._text.text()

    def is_open(self) -> bool:
        return self._toggle.isChecked()

    def set_open(self, is_open: bool) -> None:
        self._toggle.setChecked(is_open)

    def _on_toggled(self, is_open: bool) -> None:
        if self._details is None:
            self._details = ValueGrid(tuple(Row(*each) for each in numbers.reply_rows()), self)
            self._details.setObjectName("numbersDetails")
            # The values are below the text of the line, not below its button.
            self._details.setContentsMargins(28, 0, 0, 4)
            self._column.addWidget(self._details)
        self._show_details(self._details)
        self._toggle.set_icon("chevron_down" if is_open else "chevron_right")
        self._toggle.set_words(
            tr("Hide all numbers of this reply")
            if is_open
            else tr("Show all numbers of this reply")
        )

    def _lay_out(self, buttons: QWidget | None) -> None:
        self._text.setAlignment(Qt.AlignmentFlag.AlignTop)
        parts = (self._toggle,) if buttons is None else (buttons, self._toggle)
        line = row(*parts, self._text, of=self.line, spacing=GAP)
        for part in parts:
            line.setAlignment(part, Qt.AlignmentFlag.AlignTop)
        line.setStretchFactor(self._text, 1)
        line.addStretch()
        if buttons is not None:
            buttons.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._column = column(self.line, of=self, spacing=6)


class ReasoningFold(QWidget):
    """Drawn only while shown."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._running = False
        self._body: MarkdownBody | None = None
        self._button = Button(parent=self, name="reasoningToggle", style="flat")
        self._button.setCheckable(True)
        self._button.toggled.connect(self._on_toggled)
        self._frame = named(QFrame(self), "reasoningBody")
        self._frame.hide()
        self._lay_out()
        self._label()
        theme.signals().changed.connect(self._label)

    def append(self, text: str) -> None:
        self._pieces.append(text)
        if self._body is not None:
            self._body.append(text)

    def set_text(self, text: str) -> None:
        self._pieces = [text]
        if self._body is not None:
            self._body.set_text(text)

    def set_running(self, running: bool) -> None:
        if self._running and not running and self._body is not None:
            self._body.finish()
        self._running = running
        self._label()

    def text(self) -> str:
        return "".join(self._pieces)

    def is_open(self) -> bool:
        return self._button.isChecked()

    def set_open(self, is_open: bool) -> None:
        self._button.setChecked(is_open)

    def _on_toggled(self, is_open: bool) -> None:
        if is_open and self._body is None:
            self._body = self._make_body()
        self._frame.setVisible(is_open)
        self._label()

    def _make_body(self) -> MarkdownBody:
        body = MarkdownBody(self._frame)
        self._inner.addWidget(body)
        body.append(self.text())
        if not self._running:
            body.finish()
        return body

    def _label(self) -> None:
        thinking = tr("Thinking…")
        self._button.set_words(thinking if self._running else tr("Thought"))
        arrow = "chevron_down" if self.is_open() else "chevron_right"
        self._button.setIcon(theme.icon(arrow, "muted"))
        self._button.setIconSize(theme.icon_size(14))
        tip = tr("Hide the reasoning") if self.is_open() else tr("Show the reasoning")
        set_tip(self._button, tip)
        self._button.setAccessibleDescription(tip)

    def _lay_out(self) -> None:
        self._inner = column(of=self._frame, margins=(14, 2, 0, 2))
        layout = column(self._button, self._frame, of=self, spacing=4)
        layout.setAlignment(self._button, Qt.AlignmentFlag.AlignLeft)
