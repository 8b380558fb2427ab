"""*Compare two models*: a message, two models, and their replies side by side."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from core.api.model_info import ModelInfo
from core.api.stats import RequestStats
from desktop import theme
from desktop.chat.chat import ChatController
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.markdown.text_selection import TextOwner
from desktop.chat.rows.reply_parts import NumbersLine, ReasoningFold
from desktop.chat.transcript import ending_text
from desktop.compare.compare import CompareController, Side
from desktop.engine.engine_status import COMING, EngineStatus, Phase, shown_name
from desktop.i18n import tr
from desktop.models.library import LibraryController
from desktop.numbers import BETWEEN, count_of, format_bytes, format_count, precision_name
from desktop.store.tables.records import Attachment, Document, Picture
from desktop.widgets.dialogs import Dialog
from desktop.widgets.icon_button import CopyButton, IconButton
from desktop.widgets.layouts import column, row, scrolled
from desktop.widgets.plain import (
    Button,
    ElidedBox,
    ElidedLabel,
    Label,
    fit_box,
    named,
    set_tip,
    text_box,
)

WIDTH, HEIGHT, MESSAGE_HEIGHT = 980, 660, 76


class CompareDialog(Dialog):
    # An address in a reply.
    link_asked = Signal(str)

    def __init__(
        self,
        compare: CompareController,
        library: LibraryController,
        chat: ChatController,
        parent: QWidget,
    ) -> None:
        super().__init__("compareDialog", tr("Compare two models"), parent)
        self._compare, self._library, self._chat = compare, library, chat
        self._settings = compare.settings
        # The question of the shown chat that was put into the field.
        self._asked = ""
        self._attached: tuple[Attachment, ...] = ()
        # Until the user chooses, the first models of the list are chosen.
        self._chosen = False
        spoken = tr("Message to both models")
        self.message = text_box("compareMessage", spoken, read_only=False)
        self.message.setPlaceholderText(tr("Ask both models the same"))
        self.message.setFixedHeight(theme.px(MESSAGE_HEIGHT))
        self._files = Label(name="compareFiles", style="muted small")
        self._drop = IconButton("close", tr("Leave them out"), name="compareDropFiles")
        self._start = self.button("compareStart", tr("Compare"), self._on_start, "primary")
        self._stop = self.button("compareStop", tr("Stop"), compare.stop)
        self._said = Label(name="compareWords", style="muted small", wraps=True)
        self.choices = (
            named(ElidedBox(), "compareFirst", tr("First model")),
            named(ElidedBox(), "compareSecond", tr("Second model")),
        )
        self.sides = (SideView(), SideView())
        self._build()
        self._connect()
        self._fill()
        self._refresh()

    def _build(self) -> None:
        close = self.button("compareClose", tr("Close"), self.close)
        parts = column(of=self, margins=(16, 14, 16, 14), spacing=10)
        parts.addWidget(self.message)
        parts.addLayout(row(self._files, self._drop, None))
        sides = row(spacing=12)
        for choice, side in zip(self.choices, self.sides, strict=True):
            sides.addLayout(column(fit_box(choice, 12), (side, 1), spacing=8), 1)
        parts.addLayout(sides, 1)
        parts.addLayout(row((self._said, 1), close, self._stop, self._start))
        self.fit(WIDTH, HEIGHT)

    def _connect(self) -> None:
        # A picture of the screen hides it for a moment, and does not stop it.
        self.finished.connect(self._compare.stop)
        self._drop.clicked.connect(lambda: self._attach(()))
        self.message.textChanged.connect(self._refresh)
        for choice in self.choices:
            choice.currentIndexChanged.connect(self._on_choice)
        for side in self.sides:
            side.link_asked.connect(self.link_asked)
            side.keep_asked.connect(self._compare.keep)
        self._compare.begun.connect(self._follow)
        self._compare.changed.connect(self._refresh)
        self._settings.engine.changed.connect(self._refresh)
        self._settings.changed.connect(self._fill)
        self._library.changed.connect(self._fill)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._library.models:
            self._library.survey()
        if not self._compare.running:
            self._take_question()

    def _take_question(self) -> None:
        """The shown chat's last question, unless another message was written here."""
        asked = [each.message for each in self._chat.transcript.rows if not each.message.is_reply]
        if asked and self.message.toPlainText() in ("", self._asked):
            self._asked = asked[-1].text
            self.message.setPlainText(self._asked)
            self.message.selectAll()
            self._attach(asked[-1].attachments)

    def _attach(self, attached: Sequence[Attachment]) -> None:
        self._attached = tuple(attached)
        pictures = sum(isinstance(each, Picture) for each in attached)
        documents = sum(isinstance(each, Document) for each in attached)
        parts = (
            count_of(pictures, "picture") if pictures else "",
            count_of(documents, "document") if documents else "",
        )
        names = ", ".join(part for part in parts if part)
        self._files.setText(tr("With {files}").format(files=names) if names else "")
        self._refresh()

    def _fill(self) -> None:
        """Models that the user chose stay chosen."""
        recent = self._settings.settings.recent_models
        usable = (
            each.path
            for each in self._library.models
            if each.facts is None or each.facts.trouble is None
        )
        paths = list(dict.fromkeys((self._settings.kept_path, *recent, *usable, "")))
        names = [shown_name(path) for path in paths]
        for at, choice in enumerate(self.choices):
            shown = [(choice.itemText(n), choice.itemData(n)) for n in range(choice.count())]
            if shown == list(zip(names, paths, strict=True)):
                continue
            chosen = choice.currentData() if self._chosen else paths[min(at, len(paths) - 1)]
            choice.blockSignals(True)
            choice.clear()
            for name, path in zip(names, paths, strict=True):
                choice.addItem(name, path)
            choice.setCurrentIndex(max(0, choice.findData(chosen)))
            choice.blockSignals(False)
        self._tell_paths()

    def _on_choice(self, _index: int) -> None:
        self._chosen = True
        self._tell_paths()

    def _tell_paths(self) -> None:
        for choice in self.choices:
            set_tip(choice, choice.currentData() or tr("The demo model"))

    def _on_start(self) -> None:
        first, second = (str(choice.currentData()) for choice in self.choices)
        text = self.message.toPlainText().strip()
        self._compare.start((first, second), text, self._attached)

    def _follow(self) -> None:
        for view, side in zip(self.sides, self._compare.sides, strict=True):
            view.follow(side)
        self._refresh()

    def _refresh(self) -> None:
        compare, status = self._compare, self._settings.engine.status
        self._files.setVisible(bool(self._attached))
        self._drop.setVisible(bool(self._attached))
        something = bool(self.message.toPlainText().strip() or self._attached)
        self._start.setEnabled(compare.can_start and something)
        self._stop.setVisible(compare.running)
        self._stop.setEnabled(not compare.stopping)
        for each in (*self.choices, self.message, self._drop):
            each.setEnabled(not compare.running)
        for view in self.sides:
            view.refresh()
        self._said.setText(_words(compare.running, status))


class SideView(TextOwner):
    link_asked = Signal(str)
    # Side: it becomes a chat.
    keep_asked = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("compareSide")
        self.setProperty("class", "card")
        self._side: Side | None = None
        self._name = ElidedLabel(name="compareName", style="heading")
        self._status = Label(name="compareStatus", style="muted small", wraps=True)
        self._reasoning = ReasoningFold()
        self._body = MarkdownBody()
        self._ending = Label(name="compareEnding", style="warning small", wraps=True)
        self._memory = Label(name="compareMemory", style="muted small", wraps=True)
        self._copy = named(CopyButton(tr("Copy the reply")), "compareCopy")
        self._copy.clicked.connect(self._on_copy)
        self._numbers = NumbersLine(self._copy)
        self._keep = Button(tr("Keep as chat"), name="compareKeep")
        self._keep.setAutoDefault(False)
        self._keep.clicked.connect(self._on_keep)
        inside = QWidget()
        parts = (self._status, self._reasoning, self._body, self._ending, None)
        column(*parts, of=inside, margins=(0, 0, 8, 0), spacing=6)
        below = (self._numbers, row((self._memory, 1), self._keep))
        scroll = scrolled(inside, "compareScroll")
        column(self._name, (scroll, 1), *below, of=self, margins=(14, 12, 8, 10), spacing=6)
        shown_later = (self._status, self._ending, self._memory, self._copy, self._keep)
        for each in (self._reasoning, *shown_later):
            each.hide()
        self._numbers.show_stats(None, "")

    def open_link(self, address: str) -> None:
        self.link_asked.emit(address)

    def follow(self, side: Side) -> None:
        if self._side is not None:
            self._side.live.grown.disconnect(self._grow)
        self._side = side
        side.live.grown.connect(self._grow)
        self._body.set_text("")
        self._reasoning.set_text("")
        self._reasoning.set_open(False)

    def refresh(self) -> None:
        side = self._side
        if side is None:
            return
        live, reply = side.live, side.reply
        self._name.set_words(_name(side))
        self._status.say(live.status)
        self._ending.say(ending_text(reply) if reply is not None else "")
        if reply is not None:
            self._body.finish()
            if self._body.text() != side.text:
                self._body.set_text(side.text)
        self._reasoning.setVisible(bool(live.reasoning.strip()))
        self._reasoning.set_running(reply is None and not live.text)
        stats = live.stats if reply is None else reply.stats
        told = stats if stats is not None and stats.ttft_s is not None else None
        self._numbers.show_stats(told, live.model)
        answered = reply is not None and bool(side.text)
        self._copy.setVisible(answered)
        self._keep.setVisible(answered)
        self._keep.setEnabled(not side.kept)
        self._keep.set_words(tr("Kept as chat") if side.kept else tr("Keep as chat"))
        self._numbers.fit()
        self._memory.say(_memory(side.model, told) if side.model and told else "")

    def _grow(self, answer: str, reasoning: str) -> None:
        if reasoning:
            self._reasoning.append(reasoning)
        if answer:
            self._body.append(answer)

    def _on_keep(self) -> None:
        self.keep_asked.emit(self._side)

    def _on_copy(self) -> None:
        if self._side is not None:
            self._copy.copy_text(self._side.text)


def _words(running: bool, status: EngineStatus) -> str:
    if running:
        return tr("Messages in chats wait until both models have answered.")
    if status.phase in COMING or status.phase is Phase.FAILED:
        return f"{status.words()}."
    return tr(
        "The models answer one after the other. Then the present model is loaded again. Only a "
        "reply that you keep becomes a chat."
    )


def _name(side: Side) -> str:
    model = side.model
    if model is None:
        return side.name
    return BETWEEN.join((side.name, precision_name(model.precision), model.device))


def _memory(model: ModelInfo, stats: RequestStats) -> str:
    used = stats.bytes.kv + stats.bytes.checkpoints + stats.bytes.embeddings
    words = tr("Memory: {weights} for the weights, {context} for the context")
    weights, context = format_bytes(model.load.weight_bytes), format_bytes(used)
    memory = words.format(weights=weights, context=context)
    if not stats.reused_tokens:
        return memory
    words = tr("{tokens} tokens were read before, which made this reply faster.")
    reused = words.format(tokens=format_count(stats.reused_tokens))
    return f"{memory}. {reused}"
