"""Which model: its folder with the recent ones, and the button that loads it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QVBoxLayout, QWidget

from desktop import theme
from desktop.controllers.settings import SettingsController
from desktop.item_models.engine_status import EngineStatus, Phase
from desktop.item_models.plain_text import shortened
from desktop.views.plain import Button, Label, set_tip
from desktop.views.widgets.icon_button import IconButton
from desktop.words.numbers import describe_load, format_bytes, format_count

DEMO = "The demo model"
LONGEST_NAME = 100


class ModelBox(QWidget):
    """Model folder and Load.

    Signals:
        browse_asked(): the user wants to pick a folder.
    """

    browse_asked = Signal()

    def __init__(self, settings: SettingsController) -> None:
        super().__init__()
        self._settings = settings
        self._folders = QComboBox()
        self._folders.setObjectName("modelFolder")
        self._folders.setAccessibleName("Model folder")
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        self._folders.setSizeAdjustPolicy(policy)
        self._folders.setMinimumContentsLength(8)
        self._folders.activated.connect(self._on_folder)
        browse = IconButton("folder", "Choose a model folder")
        browse.setObjectName("browseModel")
        browse.clicked.connect(self.browse_asked)
        self._load = Button("Load", name="loadModel")
        self._load.clicked.connect(self._act)
        self._words = Label(name="modelWords", wraps=True)
        row = QHBoxLayout()
        row.addWidget(self._folders, 1)
        row.addWidget(browse)
        row.addWidget(self._load)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(row)
        layout.addWidget(self._words)
        settings.changed.connect(self._refresh)
        settings.engine.changed.connect(self._show_status)
        self._refresh()

    def _refresh(self) -> None:
        chosen = self._settings.settings.model.path
        known = ["", *self._settings.settings.recent_models]
        if chosen not in known:
            known.append(chosen)
        self._folders.clear()
        for path in known:
            self._folders.addItem(shortened(Path(path).name, LONGEST_NAME) if path else DEMO, path)
        self._folders.setCurrentIndex(known.index(chosen))
        set_tip(self._folders, chosen or DEMO)
        self._show_status(self._settings.engine.status)

    def _show_status(self, status: EngineStatus) -> None:
        loading = status.phase is Phase.LOADING
        self._load.set_words("Cancel" if loading else "Load")
        self._load.setAccessibleName("Cancel loading" if loading else "Load the model")
        wanted = self._settings.needs_load or status.model is None or bool(status.trouble)
        self._load.setEnabled(loading or wanted)
        self._load.setProperty("class", "primary" if wanted and not loading else "")
        theme.restyle(self._load)
        self._words.setText(self._describe(status))
        bad = bool(status.trouble) and not loading
        self._words.setProperty("class", "error small" if bad else "muted small")
        theme.restyle(self._words)

    def _describe(self, status: EngineStatus) -> str:
        if status.trouble and status.phase is not Phase.LOADING:
            return status.trouble
        model = status.model
        if model is None:
            return status.words()
        if self._settings.needs_load:
            return "Press Load to work with these settings."
        sees = "sees pictures" if model.vision else "reads text only"
        words = (
            f"{model.family}, {format_count(model.num_parameters)} parameters, {sees}. "
            f"{model.device}, {model.precision}; context {format_count(model.context_length)} of "
            f"{format_count(model.model_context_length)} tokens, "
            f"{format_bytes(model.kv_bytes_per_token)} each."
        )
        parts = (words, describe_load(model.load), model.history_note)
        return " ".join(part for part in parts if part)

    def _on_folder(self, at: int) -> None:
        self._settings.set_model_path(self._folders.itemData(at))

    def _act(self) -> None:
        if self._settings.engine.status.phase is Phase.LOADING:
            self._settings.engine.cancel_load()
        else:
            self._settings.load()
