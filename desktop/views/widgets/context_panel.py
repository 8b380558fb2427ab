"""The context in live numbers: what was reused, what was read, where it lives and what it takes.

Knows which number stands where and explains each. Leaves wording to words.numbers and drawing
to ContextStrip and ByteBars. Every value label keeps its objectName.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QProgressBar, QVBoxLayout, QWidget

from core.api.events import RequestStats
from desktop.item_models.context_view import ContextView, Strip
from desktop.views.plain import Label, set_tip
from desktop.views.widgets.byte_bars import ByteBars
from desktop.views.widgets.context_strip import ContextStrip
from desktop.views.widgets.value_grid import Row, ValueGrid
from desktop.words import numbers
from desktop.words.numbers import format_count

_PROMPT_ROWS = (
    Row(
        "contextTokens",
        "In the context",
        "Tokens of this chat in the context, and how many fit. In idle time the last reply is put "
        "the way later turns show it, which may be a few tokens more or less than it was written.",
    ),
    Row("contextReused", "Reused", "Prompt tokens that did not have to be read for this reply."),
    Row("contextEvaluated", "Read", "Prompt tokens that the model read before its first word."),
    Row(
        "contextImagesReused",
        "Images reused",
        "Images of the prompt that were not looked at again.",
    ),
    Row(
        "contextImagesEncoded",
        "Images encoded",
        "Images that went through the vision tower for this reply.",
    ),
)
_SPEED_ROWS = (
    Row("contextFirstToken", "First token", "Time from the request to the reply's first token."),
    Row("contextSpeed", "Speed", "Tokens of the reply that the model wrote in a second."),
)
_KEPT_ROWS = (
    Row(
        "contextCheckpoints",
        "Checkpoints",
        "States kept along this chat, from any of which reading can go on; and those of all chats.",
    ),
    Row("contextRestoredFrom", "Restored from", "Where the reused part was held, and its end."),
)


class ContextPanel(QWidget):
    """Shows one request's numbers, live while its prompt is read."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._hero = self._label("contextHero", "hero")
        self._summary = self._label("contextSummary", "muted")
        self._progress = QProgressBar(self)
        self._progress.setObjectName("contextProgress")
        self._progress.setTextVisible(False)
        self._progress.setAccessibleName("Reading the prompt")
        self._strip = ContextStrip(self)
        self._strip.setObjectName("contextStrip")
        self._grids = [ValueGrid(rows, self) for rows in (_PROMPT_ROWS, _SPEED_ROWS, _KEPT_ROWS)]
        self._bytes = ByteBars(self)
        self._bytes.setObjectName("byteBars")
        self._miss = self._label("contextMiss", "muted")
        set_tip(self._miss, "Why tokens were read that had been read before.")
        self._note = self._label("contextNote", "warning")
        self._lay_out()
        self.show_view(ContextView())

    def show_view(self, view: ContextView) -> None:
        """Show the last request, where its context lives, and what is held."""
        model = view.model
        self._strip.show_strip(view.strip)
        self._bytes.show_bytes(view.bytes)
        note = "" if model is None or model.spliced_replies else model.history_note
        self._show_words(self._note, note)
        if view.stats is not None and view.done is not None:
            self._show_live(view, view.stats, view.done)
        elif view.stats is not None:
            self._show_stats(view, view.stats)
        else:
            self._show_nothing(view)

    def _show_stats(self, view: ContextView, stats: RequestStats) -> None:
        self._progress.hide()
        self._hero.setText(f"{numbers.reused_percent(stats)} % reused")
        self._summary.setText(
            f"{format_count(stats.reused_tokens)} of {format_count(stats.prompt_tokens)} prompt "
            "tokens did not have to be read."
        )
        self._show_values(view, stats)

    def _show_live(self, view: ContextView, stats: RequestStats, done: int) -> None:
        """How far reading the prompt is: `done` of its tokens are in the context."""
        self._progress.setRange(0, max(1, stats.prompt_tokens))
        self._progress.setValue(min(done, stats.prompt_tokens))
        self._progress.show()
        self._hero.setText("Reading\N{HORIZONTAL ELLIPSIS}")
        self._summary.setText(
            f"{format_count(done)} of {format_count(stats.prompt_tokens)} prompt tokens, "
            f"{format_count(stats.reused_tokens)} of them reused."
        )
        self._show_values(view, stats)

    def _show_nothing(self, view: ContextView) -> None:
        self._progress.hide()
        ahead = view.strip.num_tokens
        self._hero.setText("Read ahead" if ahead else "Nothing read yet")
        fits = f"{format_count(view.model.context_length)} tokens fit." if view.model else ""
        if ahead:
            fits = f"{format_count(ahead)} tokens of your draft are read already."
        self._summary.setText(f"Numbers appear with the first message. {fits}".strip())
        for grid in self._grids:
            grid.clear()
        self._show_words(self._miss, "")

    def _show_values(self, view: ContextView, stats: RequestStats) -> None:
        # As the strip above says it; where that knows nothing, as the request left it.
        used = format_count(view.strip.num_tokens or numbers.context_used(stats))
        ttft, speed = stats.ttft_s, stats.decode_tokens_per_s
        values = {
            "contextTokens": f"{used} of {format_count(stats.context_length)} tokens",
            "contextReused": format_count(stats.reused_tokens),
            "contextEvaluated": format_count(stats.evaluated_tokens),
            "contextImagesReused": format_count(numbers.images_reused(stats, view.done)),
            "contextImagesEncoded": format_count(stats.images_encoded),
            "contextFirstToken": "" if ttft is None else numbers.format_seconds(ttft),
            "contextSpeed": "" if speed is None else numbers.format_speed(speed),
            "contextCheckpoints": _checkpoints(view.strip, stats),
            "contextRestoredFrom": numbers.describe_restore(stats),
        }
        for grid in self._grids:
            for name in grid.names():
                grid.show_value(name, values[name])
        self._show_words(self._miss, numbers.describe_miss(stats.miss) if stats.miss else "")

    def _label(self, name: str, style: str) -> Label:
        return Label(parent=self, name=name, style=style, wraps=True)

    def _show_words(self, label: Label, text: str) -> None:
        label.setText(text)
        label.setVisible(bool(text))

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.setSpacing(8)
        for widget in (self._hero, self._summary, self._progress):
            layout.addWidget(widget)
        layout.addSpacing(4)
        layout.addWidget(self._strip)
        layout.addWidget(self._miss)
        layout.addWidget(self._note)
        for grid in self._grids:
            line = QWidget(self)
            line.setProperty("class", "separator")
            line.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
            layout.addSpacing(4)
            layout.addWidget(line)
            layout.addSpacing(4)
            layout.addWidget(grid)
        layout.addSpacing(8)
        layout.addWidget(self._bytes)
        layout.addStretch(1)


def _checkpoints(strip: Strip, stats: RequestStats) -> str:
    """Those the strip ticks, and those of all chats where that was counted at the same moment."""
    if strip.parts and strip.checkpoints != stats.checkpoints:
        return f"{len(strip.checkpoints)} here"
    return f"{len(stats.checkpoints)} here, {stats.checkpoints_held} in all"
