"""The page before a conversation: two lines on what to do, and samples to try it with."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from desktop import theme
from desktop.engine.engine_status import EngineStatus, Phase
from desktop.widgets.plain import Button, Label, ToolButton
from desktop.words import frame as words

GAP_PX = 8
SIDES_PX = 12
MOST_COLUMNS = 3
ICON_PX = 64
# Of the few that are shown for other models than the demo model.
LARGE_ICON_PX = 112


class EmptyPage(QWidget):
    """Shown while the chat on screen has no message.

    Signals:
        sample_asked(object, str): take this picture (a Path, or None) and this question into the
            composer.
        model_asked(): the user wants to choose a model.
    """

    sample_asked = Signal(object, str)
    model_asked = Signal()

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.setObjectName("emptyPage")
        self._mark = Label()
        self._offered = True
        self._mark.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._about = self._label(words.DEMO_WORDS, "emptyModel", "muted")
        self._about.hide()
        self._samples = [
            self._make_sample(folder, number, *sample)
            for number, sample in enumerate(words.SAMPLES, 1)
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
            self._label(words.EMPTY_TITLE, "emptyTitle", "title"),
            self._label(words.EMPTY_WORDS, "emptyWords", "muted"),
            self._about,
        ):
            layout.addWidget(label)
        layout.addWidget(self._make_missing())
        layout.addSpacing(4)
        layout.addLayout(self._grid)
        layout.addStretch(3)
        theme.signals().changed.connect(self._draw)
        self._draw()
        self.show_samples(demo=False)

    def show_samples(self, demo: bool) -> None:
        """Offer what the demo model can do, or, for another model, a few pictures."""
        self._demo = demo
        self._shown = self._samples if demo else self._samples[: words.FEW_SAMPLES]
        for sample, (_, question) in zip(self._samples, words.SAMPLES, strict=True):
            side = ICON_PX if demo else LARGE_ICON_PX
            sample.setIconSize(QSize(side, side))
            sample.set_words(question if demo else words.TRY_SAMPLE)
        self._show_offered()
        self._columns = 0
        self._lay_out()

    def show_status(self, status: EngineStatus) -> None:
        """With no model, say so and why, beside a button to choose one."""
        missing = status.phase is Phase.EMPTY
        self._missing.setVisible(missing)
        self._offered = not missing
        self._reason.setText(status.trouble or words.NO_MODEL_YET)
        self._show_offered()

    def _show_offered(self) -> None:
        self._about.setVisible(self._demo and self._offered)
        for sample in self._samples:
            sample.setVisible(self._offered and sample in self._shown)

    def _make_missing(self) -> QWidget:
        self._missing = QWidget()
        self._reason = self._label("", "emptyReason", "warning")
        choose = Button(words.CHOOSE_FOLDER, name="emptyChoose", spoken=words.MODEL_TIP)
        choose.clicked.connect(self.model_asked)
        layout = QVBoxLayout(self._missing)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._reason)
        layout.addWidget(choose, 0, Qt.AlignmentFlag.AlignCenter)
        self._missing.hide()
        return self._missing

    def _make_sample(
        self, folder: Path, number: int, picture: str | None, question: str
    ) -> ToolButton:
        button = ToolButton(self)
        button.setObjectName(f"sample{number}")
        button.setAccessibleName(words.sample_spoken(number, question))
        path = folder / picture if picture is not None else None
        # These files come with the app; all others are decoded in the engine's process.
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
        """Lay out as many samples in a row as there is room for."""
        widest = max(sample.sizeHint().width() for sample in self._shown)
        for sample in self._shown:
            sample.setMinimumWidth(widest)
        room = (self.width() - 2 * SIDES_PX + GAP_PX) // (widest + GAP_PX)
        columns = max(1, min(MOST_COLUMNS, room))
        if columns == self._columns:
            return
        self._columns = columns
        for at, sample in enumerate(self._shown):
            # The outer columns hold the others together in the middle.
            self._grid.addWidget(sample, at // columns, 1 + at % columns)
        for column in range(MOST_COLUMNS + 2):
            self._grid.setColumnStretch(column, int(column in (0, columns + 1)))

    def minimumSizeHint(self) -> QSize:
        # With less room for samples they go on in the next line.
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def _draw(self) -> None:
        self._mark.setPixmap(theme.icon("waymark", "accent").pixmap(40, 40))
        for sample, (picture, _) in zip(self._samples, words.SAMPLES, strict=True):
            if picture is None:
                sample.setIcon(theme.icon("chat", "muted"))
