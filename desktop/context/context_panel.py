"""The Context page: what was reused, what was read, where it is stored, what it takes."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QProgressBar, QWidget

from core.api.stats import RequestStats
from desktop import numbers
from desktop.context.context import ContextView
from desktop.context.context_strip import ContextStrip, tokens_words
from desktop.context.fills import ByteBars
from desktop.context.strip import Strip
from desktop.engine.error_words import disk_trouble_words
from desktop.i18n import tr
from desktop.numbers import count_of, format_count
from desktop.widgets.layouts import column
from desktop.widgets.plain import Label, named, set_tip
from desktop.widgets.value_grid import Row, ValueGrid


class ContextPanel(QWidget):
    """`below` is shown at its end."""

    def __init__(self, below: QWidget | None = None) -> None:
        super().__init__()
        self._below = below
        self._hero = self._label("contextHero", "hero")
        self._summary = self._label("contextSummary", "muted")
        self._progress = named(QProgressBar(), "contextProgress", tr("Reading the prompt"))
        self._progress.setTextVisible(False)
        self._tokens = ValueGrid((_tokens_row(),))
        self._strip = named(ContextStrip(), "contextStrip")
        self._difference = self._label("contextDifference", "muted small")
        self._grids = [
            (_separator(), ValueGrid(rows))
            for rows in (_prompt_rows(), _speed_rows(), _kept_rows())
        ]
        self._bytes = named(ByteBars(), "byteBars")
        self._miss = self._label("contextMiss", "muted")
        set_tip(self._miss, tr("Why tokens were read a second time."))
        self._note = self._label("contextNote", "warning")
        self._elsewhere = self._label("contextElsewhere", "muted")
        self._disk_trouble = self._label("contextDiskTrouble", "warning")
        self._lay_out()
        self.show_view(ContextView())

    def show_view(self, view: ContextView) -> None:
        model, stats = view.model, view.stats
        self._strip.show_strip(view.strip)
        self._bytes.show_bytes(view.bytes)
        note = "" if model is None or model.spliced_replies else model.history_note
        self._note.say(note)
        trouble = view.disk_trouble
        self._disk_trouble.say(disk_trouble_words(trouble) if trouble else "")
        self._show_heading(view)
        self._elsewhere.say(_elsewhere_words(view.host) if view.host else "")
        self._strip.setVisible(not view.host)
        self._tokens.show_values({"contextTokens": "" if view.host else _tokens(view)})
        values = _values(view, stats) if stats is not None else {}
        if view.host:
            values = _remote_values(stats)
        for separator, grid in self._grids:
            grid.show_values(values, _UNKNOWN_THERE if view.host else ())
            separator.setVisible(not grid.isHidden())
        miss = stats.miss if stats is not None else None
        self._miss.say(numbers.describe_miss(miss) if miss else "")
        self._difference.say(_difference(view.strip, view.reasoned))

    def _show_heading(self, view: ContextView) -> None:
        stats, done = view.stats, view.done
        self._progress.setVisible(stats is not None and done is not None)
        if view.host:
            hero, summary = _of_server(view.host, stats)
        elif stats is None:
            hero, summary = _without_request(view)
        elif done is not None:
            self._progress.setRange(0, max(1, stats.prompt_tokens))
            self._progress.setValue(min(done, stats.prompt_tokens))
            hero = tr("Reading…")
            summary = tr("{done} of {prompt} prompt tokens, {reused} of them reused.").format(
                done=format_count(done),
                prompt=format_count(stats.prompt_tokens),
                reused=format_count(stats.reused_tokens),
            )
        else:
            hero, summary = _of_request(stats)
        self._hero.setText(hero)
        self._summary.say(summary)

    def _label(self, name: str, style: str) -> Label:
        return Label(name=name, style=style, wraps=True)

    def _lay_out(self) -> None:
        heading = (self._hero, self._summary, self._progress)
        warnings = (self._miss, self._note, self._disk_trouble, self._elsewhere)
        context = (self._tokens, self._strip, self._difference)
        grids = [part for pair in self._grids for part in pair]
        cache = column(self._bytes, margins=(0, 8, 0, 0))
        below = (self._below,) if self._below is not None else ()
        parts = (*heading, *warnings, *context, *grids, cache, *below, None)
        column(*parts, of=self, margins=(18, 16, 18, 16), spacing=8)


def _separator() -> QWidget:
    line = QWidget()
    line.setProperty("class", "separator")
    line.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    return line


# The rows: objectName, label, explanation.


def _tokens_row() -> Row:
    explanation = tr(
        "Tokens of this chat in the context, and how many fit. While the computer is idle, the "
        "last reply is read in the form that later turns use, which may take a few tokens more or "
        "fewer."
    )
    return Row("contextTokens", tr("In the context"), explanation)


def _prompt_rows() -> tuple[Row, ...]:
    return (
        Row("contextReused", tr("Reused"), tr("Prompt tokens reused for this reply, not read.")),
        Row("contextEvaluated", tr("Read"), tr("Prompt tokens read before the first word.")),
        Row("contextImagesReused", tr("Images reused"), tr("Images that weren't encoded again.")),
        Row("contextImagesEncoded", tr("Images encoded"), tr("Images encoded for this reply.")),
    )


def _speed_rows() -> tuple[Row, ...]:
    return (
        Row("contextFirstToken", tr("First token"), tr("Time from Send to the first token.")),
        Row("contextSpeed", tr("Speed"), tr("Tokens of the reply written per second.")),
        Row(
            "contextDrafts",
            tr("Drafts"),
            tr("Tokens written in a step on average: more than one if guesses were right."),
        ),
    )


def _kept_rows() -> tuple[Row, ...]:
    checkpoints = tr("Saved states from which reading can resume: of this chat, and of all chats.")
    return (
        Row("contextCheckpoints", tr("Checkpoints"), checkpoints),
        Row("contextRestoredFrom", tr("Restored from"), tr("Where the reused part was stored.")),
    )


# The values.


def _without_request(view: ContextView) -> tuple[str, str]:
    limit = format_count(view.model.context_length if view.model else 0)
    tokens = count_of(view.strip.num_tokens, "token")
    if view.strip.num_tokens and (view.begun or view.foreign):
        words = tr("The context holds {tokens} of this chat.")
        return tr("Ready to continue"), words.format(tokens=tokens)
    if view.strip.num_tokens:
        return tr("Draft read"), tr("{tokens} of your draft are already read.").format(
            tokens=tokens
        )
    if view.foreign:
        words = tr(
            "The last reply was written by another model, or with other model settings. The next "
            "message reads the whole chat; {limit} tokens fit."
        )
        return tr("Not read by this model"), words.format(limit=limit)
    words = tr("Numbers appear with the first message.")
    if view.model:
        words += " " + tr("{limit} tokens fit.").format(limit=limit)
    return tr("Nothing read yet"), words


# The rows of what a server keeps to itself.
_UNKNOWN_THERE = ("contextCheckpoints", "contextRestoredFrom", "contextDrafts")


def _elsewhere_words(host: str) -> str:
    return tr(
        "Checkpoints, budgets and drafts are those of {host}. They can't be seen or set "
        "from here, and the same chat may get another reply there."
    ).format(host=host)


def _of_server(host: str, stats: RequestStats | None) -> tuple[str, str]:
    report = stats.remote if stats is not None else None
    if stats is None or report is None:
        words = tr("Numbers that {host} reports appear with its first reply.")
        return tr("Runs on {host}").format(host=host), words.format(host=host)
    if report.cached:
        hero = tr("{percent} % cached there").format(percent=numbers.reused_percent(stats))
        words = tr("{host} reports {reused} of {prompt} prompt tokens from its cache.")
    elif report.prompt:
        hero = tr("{tokens} sent").format(tokens=count_of(stats.prompt_tokens, "token"))
        words = tr("{host} doesn't report how many of them were in its cache.")
    else:
        hero = tr("Runs on {host}").format(host=host)
        words = tr("{host} hasn't reported how many tokens the prompt has.")
    return hero, words.format(
        host=report.host,
        reused=format_count(stats.reused_tokens),
        prompt=format_count(stats.prompt_tokens),
    )


def _remote_values(stats: RequestStats | None) -> dict[str, str]:
    unknown = tr("not known here")
    report = stats.remote if stats is not None else None
    values = {"contextCheckpoints": unknown, "contextRestoredFrom": unknown}
    if stats is None or report is None:
        return values
    return {
        **values,
        "contextReused": format_count(stats.reused_tokens) if report.cached else unknown,
        "contextEvaluated": format_count(stats.evaluated_tokens) if report.cached else unknown,
        "contextFirstToken": numbers.first_token_text(stats),
        "contextSpeed": numbers.speed_text(stats),
        "contextDrafts": unknown,
    }


def _of_request(stats: RequestStats) -> tuple[str, str]:
    reused, read = stats.reused_tokens, stats.evaluated_tokens
    if not reused and len(stats.message_starts) <= 1 and stats.miss is None:
        return tr("First message: {tokens} read").format(tokens=count_of(read, "token")), ""
    hero = tr("{percent} % reused").format(percent=numbers.reused_percent(stats))
    words = tr("{reused} of {prompt} prompt tokens were reused.")
    prompt = format_count(stats.prompt_tokens)
    return hero, words.format(reused=format_count(reused), prompt=prompt)


def _tokens(view: ContextView) -> str:
    strip, stats = view.strip, view.stats
    if not strip.known:
        return tr("Not loaded")
    if strip.parts:
        return tokens_words(strip.num_tokens, strip.context_length)
    if stats is None:
        return ""
    return tokens_words(numbers.context_used(stats), stats.context_length)


def _values(view: ContextView, stats: RequestStats) -> dict[str, str]:
    images = stats.images_in_prompt
    images_reused = format_count(numbers.images_reused(stats, view.done)) if images else ""
    return {
        "contextReused": format_count(stats.reused_tokens),
        "contextEvaluated": format_count(stats.evaluated_tokens),
        "contextImagesReused": images_reused,
        "contextImagesEncoded": format_count(stats.images_encoded) if images else "",
        "contextFirstToken": numbers.first_token_text(stats),
        "contextSpeed": numbers.speed_text(stats),
        "contextDrafts": numbers.tokens_per_step(stats),
        "contextCheckpoints": _checkpoints(view.strip, stats),
        "contextRestoredFrom": numbers.describe_restore(stats) if stats.restored_from else "",
    }


def _checkpoints(strip: Strip, stats: RequestStats) -> str:
    """Counts all chats' only if that was at the same moment."""
    if not strip.known or not (strip.checkpoints or stats.checkpoints_held):
        return ""
    if strip.parts and strip.checkpoints != stats.checkpoints:
        return tr("{count} here").format(count=format_count(len(strip.checkpoints)))
    here, total = format_count(len(stats.checkpoints)), format_count(stats.checkpoints_held)
    return tr("{count} here, {total} in all chats").format(count=here, total=total)


def _difference(strip: Strip, reasoned: bool) -> str:
    """Why the context has fewer tokens than the last request and its reply."""
    asked, held = strip.num_asked, strip.num_tokens
    if not strip.known or strip.asked == strip.parts or not 0 < held < asked:
        return ""
    if strip.differs is not None and held <= strip.differs:
        return ""  # The reply is not in it.
    if reasoned:
        words = tr(
            "Later turns leave out this reply's reasoning: {held} of {asked} stay in the context."
        )
    else:
        words = tr(
            "Later turns show this reply in a shorter form: {held} of {asked} stay in the context."
        )
    return words.format(held=format_count(held), asked=count_of(asked, "token"))
