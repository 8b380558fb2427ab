"""The context in live numbers: what was reused, what was read, where it lives and what it takes.

Knows which number stands where. Leaves wording to words.context and drawing to ContextStrip and
ByteBars. Every value label keeps its objectName, and is hidden while it has no value.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QProgressBar, QVBoxLayout, QWidget

from core.api.stats import RequestStats
from desktop import numbers
from desktop.context.byte_bars import ByteBars
from desktop.context.context_strip import ContextStrip
from desktop.context.context_view import ContextView, Strip
from desktop.numbers import format_count
from desktop.widgets.plain import Label, set_tip
from desktop.widgets.value_grid import Row, ValueGrid
from desktop.words import context as words

TOKENS_ROW = Row(*words.TOKENS_ROW)
GRIDS = [
    [Row(*each) for each in rows] for rows in (words.PROMPT_ROWS, words.SPEED_ROWS, words.KEPT_ROWS)
]


class ContextPanel(QWidget):
    """Shows one request's numbers, live while its prompt is read."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._hero = self._label("contextHero", "hero")
        self._summary = self._label("contextSummary", "muted")
        self._progress = QProgressBar(self)
        self._progress.setObjectName("contextProgress")
        self._progress.setTextVisible(False)
        self._progress.setAccessibleName(words.PROGRESS_SPOKEN)
        self._tokens = ValueGrid((TOKENS_ROW,), self)
        self._strip = ContextStrip(self)
        self._strip.setObjectName("contextStrip")
        self._difference = self._label("contextDifference", "muted small")
        self._grids = [(_separator(self), ValueGrid(rows, self)) for rows in GRIDS]
        self._bytes = ByteBars(self)
        self._bytes.setObjectName("byteBars")
        self._miss = self._label("contextMiss", "muted")
        set_tip(self._miss, words.MISS_TIP)
        self._note = self._label("contextNote", "warning")
        self._disk_trouble = self._label("contextDiskTrouble", "warning")
        self._lay_out()
        self.show_view(ContextView())

    def show_view(self, view: ContextView) -> None:
        """Show the last request, where its context lives, and what is held."""
        model, stats = view.model, view.stats
        self._strip.show_strip(view.strip)
        self._bytes.show_bytes(view.bytes)
        note = "" if model is None or model.spliced_replies else model.history_note
        self._show_words(self._note, note)
        trouble = view.disk_trouble
        self._show_words(self._disk_trouble, words.disk_trouble_words(trouble) if trouble else "")
        self._show_heading(view)
        self._tokens.show_values({TOKENS_ROW.name: _tokens(view)})
        values = _values(view, stats) if stats is not None else {}
        for separator, grid in self._grids:
            grid.show_values(values)
            separator.setVisible(not grid.isHidden())
        miss = stats.miss if stats is not None else None
        self._show_words(self._miss, numbers.describe_miss(miss) if miss else "")
        self._show_words(self._difference, _difference(view.strip, view.reasoned))

    def _show_heading(self, view: ContextView) -> None:
        stats, done = view.stats, view.done
        self._progress.setVisible(stats is not None and done is not None)
        if stats is None:
            hero, summary = _of_nothing(view)
        elif done is not None:
            self._progress.setRange(0, max(1, stats.prompt_tokens))
            self._progress.setValue(min(done, stats.prompt_tokens))
            hero = words.READING
            summary = words.live_words(done, stats.prompt_tokens, stats.reused_tokens)
        else:
            hero, summary = _of_request(stats)
        self._hero.setText(hero)
        self._show_words(self._summary, summary)

    def _label(self, name: str, style: str) -> Label:
        return Label(parent=self, name=name, style=style, wraps=True)

    def _show_words(self, label: Label, text: str) -> None:
        label.setText(text)
        label.setVisible(bool(text))

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.setSpacing(8)
        for widget in (
            self._hero,
            self._summary,
            self._progress,
            self._miss,
            self._note,
            self._disk_trouble,
            self._tokens,
            self._strip,
            self._difference,
        ):
            layout.addWidget(widget)
        for separator, grid in self._grids:
            layout.addWidget(separator)
            layout.addWidget(grid)
        layout.addSpacing(8)
        layout.addWidget(self._bytes)
        layout.addStretch(1)


def _separator(parent: QWidget) -> QWidget:
    line = QWidget(parent)
    line.setProperty("class", "separator")
    line.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    return line


def _of_nothing(view: ContextView) -> tuple[str, str]:
    """Hero and summary where there is no request to tell of."""
    limit = view.model.context_length if view.model else 0
    if view.strip.num_tokens and view.begun:
        return words.READY, words.ready_words(view.strip.num_tokens)
    if view.strip.num_tokens:
        return words.READ_AHEAD, words.ahead_words(view.strip.num_tokens)
    if view.foreign:
        return words.OTHER_MODEL, words.other_model_words(limit)
    return words.NOTHING_READ, words.nothing_words(limit)


def _of_request(stats: RequestStats) -> tuple[str, str]:
    """Hero and summary of a request that was answered."""
    reused, read = stats.reused_tokens, stats.evaluated_tokens
    if not reused and len(stats.message_starts) <= 1 and stats.miss is None:
        return words.first_words(read), ""
    hero = words.reused_words(numbers.reused_percent(stats))
    return hero, words.summary_words(reused, stats.prompt_tokens)


def _tokens(view: ContextView) -> str:
    """What the context holds now of this chat, and what fits; '' before there was anything."""
    strip, stats = view.strip, view.stats
    if not strip.known:
        return words.NOT_LOADED
    if strip.parts:
        return words.held_words(strip.num_tokens, strip.context_length)
    if stats is None:
        return ""
    return words.held_words(numbers.context_used(stats), stats.context_length)


def _values(view: ContextView, stats: RequestStats) -> dict[str, str]:
    """The other values by their rows' names; '' for what there is none of."""
    ttft, speed = stats.ttft_s, stats.decode_tokens_per_s
    images = stats.images_in_prompt
    return {
        "contextReused": format_count(stats.reused_tokens),
        "contextEvaluated": format_count(stats.evaluated_tokens),
        "contextImagesReused": format_count(numbers.images_reused(stats, view.done))
        if images
        else "",
        "contextImagesEncoded": format_count(stats.images_encoded) if images else "",
        "contextFirstToken": "" if ttft is None else numbers.format_seconds(ttft),
        "contextSpeed": "" if speed is None else numbers.format_speed(speed),
        "contextDrafts": numbers.tokens_per_step(stats),
        "contextCheckpoints": _checkpoints(view.strip, stats),
        "contextRestoredFrom": numbers.describe_restore(stats) if stats.restored_from else "",
    }


def _checkpoints(strip: Strip, stats: RequestStats) -> str:
    """Those the strip ticks, and those of all chats where that was counted at the same moment."""
    if not strip.known or not (strip.checkpoints or stats.checkpoints_held):
        return ""
    if strip.parts and strip.checkpoints != stats.checkpoints:
        return words.checkpoint_words(len(strip.checkpoints), None)
    return words.checkpoint_words(len(stats.checkpoints), stats.checkpoints_held)


def _difference(strip: Strip, reasoned: bool) -> str:
    """Why the strip's two bands are not of the same tokens, where they are not."""
    if not strip.known or strip.asked == strip.parts:
        return ""
    return words.difference_words(strip.num_asked, strip.num_tokens, reasoned)
