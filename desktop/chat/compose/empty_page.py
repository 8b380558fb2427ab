"""The page before a conversation, with samples to try."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QGridLayout, QVBoxLayout, QWidget

from core.api.model_info import ModelInfo
from core.remote.connection import host_of
from core.remote.messages import Place
from desktop import theme
from desktop.engine.engine_status import EngineStatus, Phase
from desktop.i18n import tr
from desktop.numbers import format_bytes, format_count, precision_name
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, Label, ToolButton, named

GAP_PX = 8
SIDES_PX = 12
MOST_COLUMNS = 3
ICON_PX = 64
# For models other than the demo model, which get only the first few samples.
LARGE_ICON_PX = 112
FEW_SAMPLES = 3


class EmptyPage(QWidget):
    sample_asked = Signal(object, str)
    folder_asked = Signal()
    file_asked = Signal()
    get_asked = Signal()
    library_asked = Signal()

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.setObjectName("emptyPage")
        self._mark = Label()
        self._offered = True
        self._mark.setAlignment(Qt.AlignmentFlag.AlignCenter)
        about = tr(
            "This is the demo model: it describes simple pictures of shapes and remembers what you "
            "tell it."
        )
        self._about = self._label(about, "emptyModel", "muted")
        self._about.hide()
        self._words = self._label("", "emptyWords", "muted")
        self._defaults = self._label("", "emptyDefaults", "muted small")
        self._samples = [
            self._make_sample(folder, number, *sample) for number, sample in enumerate(samples(), 1)
        ]
        self._shown: list[ToolButton] = []
        self._columns = 0
        self._grid = QGridLayout()
        self._grid.setSpacing(GAP_PX)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        layout.addStretch(2)
        for label in (
            self._mark,
            # No-break spaces keep the last words of a sentence on one line.
            self._label(tr("What would you like to look\u00a0at?"), "emptyTitle", "title"),
            self._words,
            self._about,
        ):
            layout.addWidget(label)
        layout.addWidget(self._make_missing())
        layout.addWidget(self._make_offer())
        layout.addSpacing(4)
        layout.addLayout(self._grid)
        layout.addSpacing(4)
        layout.addWidget(self._defaults)
        layout.addStretch(3)
        theme.signals().changed.connect(self._draw)
        self._draw()
        self.show_samples(demo=False)
        self.show_place(None)

    def show_place(self, place: Place | None) -> None:
        """None for this computer."""
        ask = tr("Ask a question below, or drop a picture and ask\u00a0about\u00a0it.")
        words = tr(
            "Everything stays on this computer. What the model has read is reused if possible: "
            "Context\u00a0(Ctrl+1)\u00a0shows\u00a0how."
        )
        if place is not None:
            words = tr("Your messages are sent to {host}, where {model}\u00a0answers.").format(
                host=host_of(place.address), model=place.model
            )
        self._words.setText(f"{ask}\n{words}")

    def show_samples(self, demo: bool) -> None:
        self._demo = demo
        self._shown = self._samples if demo else self._samples[:FEW_SAMPLES]
        side = ICON_PX if demo else LARGE_ICON_PX
        for sample, (_, question) in zip(self._samples, samples(), strict=True):
            sample.setIconSize(QSize(side, side))
            sample.set_words(question if demo else tr("Try this one"))
        self._show_offered()
        self._columns = 0
        self._lay_out()

    def show_status(self, status: EngineStatus) -> None:
        missing = status.phase is Phase.EMPTY and not status.asleep
        self._missing.setVisible(missing)
        self._offered = not missing
        self._defaults.setText(default_words(status.model) if status.model is not None else "")
        self._reason.setText(status.trouble or tr("No model is loaded. Choose one to begin."))
        self._show_offered()

    def _show_offered(self) -> None:
        self._about.setVisible(self._demo and self._offered)
        for each in (self._offer, self._defaults):
            each.setVisible(self._demo and self._offered)
        for sample in self._samples:
            sample.setVisible(self._offered and sample in self._shown)

    def _make_offer(self) -> QWidget:
        self._offer = QWidget()
        get = Button(tr("Get a model for this computer"), name="emptyGetModel", style="primary")
        get.clicked.connect(self.get_asked)
        have = Button(tr("Use models I already have"), name="emptyLibrary")
        have.clicked.connect(self.library_asked)
        self._offers = row(None, get, have, None, of=self._offer)
        return self._offer

    def _make_missing(self) -> QWidget:
        self._missing = QWidget()
        self._reason = self._label("", "emptyReason", "warning")
        folder = Button(
            tr("Choose a folder…"), name="emptyChoose", spoken=tr("Choose a model folder")
        )
        folder.clicked.connect(self.folder_asked)
        words = tr("Choose a GGUF file…")
        file = Button(words, name="emptyChooseFile", spoken=tr("Choose a GGUF file"))
        file.clicked.connect(self.file_asked)
        get = Button(tr("Get a model…"), name="emptyGet", style="primary")
        get.setAccessibleName(tr("Get a model"))
        get.clicked.connect(self.get_asked)
        have = Button(tr("Models…"), name="emptyModels", spoken=tr("Models on this computer"))
        have.clicked.connect(self.library_asked)
        ways = (row(None, get, have, None), row(None, folder, file, None))
        column(self._reason, *ways, of=self._missing)
        self._missing.hide()
        return self._missing

    def _make_sample(
        self, folder: Path, number: int, picture: str | None, question: str
    ) -> ToolButton:
        button = named(ToolButton(self), f"sample{number}")
        spoken = tr("Try sample {number}: {question}")
        button.setAccessibleName(spoken.format(number=number, question=question))
        path = folder / picture if picture is not None else None
        # These files are part of the app; all others are decoded in the engine's process.
        button.setIcon(QIcon(str(path)) if path is not None else theme.icon("chat", "muted"))
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda: self.sample_asked.emit(path, question))
        return button

    def _label(self, text: str, name: str, style: str) -> Label:
        label = Label(text, name=name, style=style, wraps=True)
        label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        return label

    def _lay_out(self) -> None:
        widest = max(sample.sizeHint().width() for sample in self._shown)
        for sample in self._shown:
            sample.setMinimumWidth(widest)
        room = (self.width() - 2 * SIDES_PX + GAP_PX) // (widest + GAP_PX)
        columns = max(1, min(MOST_COLUMNS, room))
        if columns == self._columns:
            return
        self._columns = columns
        for at, sample in enumerate(self._shown):
            # Outer columns of stretch centre the others.
            self._grid.addWidget(sample, at // columns, 1 + at % columns)
        for at in range(MOST_COLUMNS + 2):
            self._grid.setColumnStretch(at, int(at in (0, columns + 1)))

    def minimumSizeHint(self) -> QSize:
        # Narrower, the samples wrap to the next line.
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()
        buttons = self._offer.findChildren(Button)
        needed = sum(each.sizeHint().width() + self._offers.spacing() for each in buttons)
        fits = needed <= self.width() - 2 * SIDES_PX
        ways = QBoxLayout.Direction
        self._offers.setDirection(ways.LeftToRight if fits else ways.TopToBottom)

    def _draw(self) -> None:
        self._mark.setPixmap(theme.icon("waymark", "accent").pixmap(40, 40))
        for sample, (picture, _) in zip(self._samples, samples(), strict=True):
            if picture is None:
                sample.setIcon(theme.icon("chat", "muted"))


def default_words(model: ModelInfo) -> str:
    words = tr(
        "Precision: {precision}, the most exact one that fits your memory and is fast "
        "here.\nContext: up to {tokens} tokens in a chat, as long as memory allows.\nCache: "
        "up to {host} of memory and {disk} of disk space for what was read."
    )
    return words.format(
        precision=precision_name(model.precision),
        tokens=format_count(model.context_length),
        host=format_bytes(model.host_budget),
        disk=format_bytes(model.disk_budget),
    )


def samples() -> tuple[tuple[str | None, str], ...]:
    """Pictures and questions that the demo model can answer."""
    return (
        ("three-shapes.png", tr("What is in the picture?")),
        ("four-shapes.png", tr("What colour is the star?")),
        ("two-crosses.png", tr("Count the crosses.")),
        ("four-shapes.png", tr("Where is the diamond?")),
        ("three-shapes.png", tr("How big is the star?")),
        (None, tr("What can you do?")),
    )
