"""What stands where a conversation will: two lines on what to do, and pictures to try it with."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from desktop.common import theme
from desktop.presentation.engine_status import EngineStatus, Phase
from desktop.views.widgets.plain import Button, Label, ToolButton
from desktop.words import frame as words

SAMPLE_SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}
SAMPLES_SHOWN = 3
GAP_PX = 12
SIDES_PX = 24


class EmptyPage(QWidget):
    """Shown while the chat on screen has no message.

    Signals:
        sample_asked(Path): take this picture into the composer.
        model_asked(): the user wants to choose a model.
    """

    sample_asked = Signal(object)
    model_asked = Signal()

    def __init__(self, samples: Path) -> None:
        super().__init__()
        self.setObjectName("emptyPage")
        self._mark = Label()
        self._samples: list[ToolButton] = []
        self._samples_shown = True
        self._mark.setAlignment(Qt.AlignmentFlag.AlignCenter)
        title = self._label(words.EMPTY_TITLE, "emptyTitle", "title")
        line = self._label(words.EMPTY_WORDS, "emptyWords", "muted")
        layout = QVBoxLayout(self)
        layout.setSpacing(14)
        layout.addStretch(2)
        for label in (self._mark, title, line):
            layout.addWidget(label)
        layout.addWidget(self._make_missing())
        layout.addLayout(self._make_samples(samples))
        layout.addStretch(3)
        theme.signals().changed.connect(self._draw)
        self._draw()

    def show_status(self, status: EngineStatus) -> None:
        """With no model, say so and why, beside a button to choose one."""
        missing = status.phase is Phase.EMPTY
        self._missing.setVisible(missing)
        self._samples_shown = not missing
        self._reason.setText(status.trouble or words.NO_MODEL_YET)
        self._fit()

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

    def _make_samples(self, folder: Path) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(GAP_PX)
        row.addStretch(1)
        for number, path in enumerate(sample_pictures(folder), 1):
            self._samples.append(self._make_sample(path, number))
            row.addWidget(self._samples[-1])
        row.addStretch(1)
        return row

    def _make_sample(self, path: Path, number: int) -> ToolButton:
        button = ToolButton()
        button.setObjectName(f"sample{number}")
        button.set_words(words.TRY_SAMPLE)
        button.setAccessibleName(words.sample_spoken(number))
        # These files come with the app; all others are decoded in the engine's process.
        button.setIcon(QIcon(str(path)))
        button.setIconSize(QSize(112, 112))
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.clicked.connect(lambda: self.sample_asked.emit(path))
        return button

    def _label(self, text: str, name: str, style: str) -> Label:
        label = Label(text, name=name, style=style, wraps=True)
        label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        return label

    def minimumSizeHint(self) -> QSize:
        # Samples that find no room are not shown.
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Show as many samples as there is room for, while a model can look at them."""
        room = self.width() - SIDES_PX
        for sample in self._samples:
            room -= sample.sizeHint().width() + GAP_PX
            sample.setVisible(self._samples_shown and room > -GAP_PX)

    def _draw(self) -> None:
        self._mark.setPixmap(theme.icon("waymark", "accent").pixmap(48, 48))


def sample_pictures(folder: Path) -> list[Path]:
    """The first few pictures of the samples' folder, by name."""
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if path.suffix.lower() in SAMPLE_SUFFIXES)
    return sorted(found)[:SAMPLES_SHOWN]
