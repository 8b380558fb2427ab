"""The model's name in the header, with a menu of recent models and those of other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from core.gguf.library import FoundModel
from desktop import theme
from desktop.engine.engine_status import COMING, EngineStatus, model_name, shown_name
from desktop.i18n import tr
from desktop.settings.settings import SettingsController
from desktop.widgets.plain import ToolButton, action, set_tip

# Models of other programs in the menu; more are found by choosing a folder.
MOST_OFFERED = 100
WIDEST_PX = 160
# The arrow and the margins.
FRAME_PX = 46


class ModelSwitcher(ToolButton):
    # The user wants to pick a model folder.
    folder_asked = Signal()
    # The user wants to pick a GGUF file.
    file_asked = Signal()
    # The user wants to download a model.
    get_asked = Signal()
    # The user wants to see all models.
    library_asked = Signal()
    # The menu opens, and wants the models of other programs.
    search_asked = Signal()
    # The user wants to see the model settings.
    settings_asked = Signal()

    def __init__(self, settings: SettingsController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelName")
        self.setProperty("class", "chip")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._settings = settings
        self._menu = QMenu(self)
        self._menu.setObjectName("modelMenu")
        self._menu.setToolTipsVisible(True)
        # The button is right-to-left to have its arrow after the name; the menu isn't.
        self._menu.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._folder = action(tr("Choose a folder…"), self, self.folder_asked.emit)
        self._folder.setObjectName("actionChooseModel")
        self._file = action(tr("Choose a GGUF file…"), self, self.file_asked.emit)
        self._file.setObjectName("actionChooseFile")
        self._get = action(tr("Get a model…"), self, self.get_asked.emit)
        self._get.setObjectName("actionDownloadModel")
        self._library = action(tr("All models…"), self, self.library_asked.emit)
        self._library.setObjectName("actionAllModels")
        self._offered = QMenu(tr("On this computer"), self)
        self._offered.setObjectName("modelsOffered")
        self._offered.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._say(tr("Looking for models…"))
        self._more = action(tr("Model settings"), self, self.settings_asked.emit)
        self._more.setObjectName("actionModelSettings")
        self.clicked.connect(self._open)
        theme.signals().changed.connect(self._draw)
        self._draw()

    def show_status(self, status: EngineStatus) -> None:
        model = status.model
        name = tr("No model")
        if model is not None:
            name = model_name(model)
        elif status.phase in COMING:
            name = shown_name(self._settings.loaded.path)
        room = WIDEST_PX - FRAME_PX
        self.set_words(self.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, room))
        self.setAccessibleName(tr("Model: {name}").format(name=name))
        told = tr("Choose a model") if model is None else f"{model.name}\n{model.path}"
        set_tip(self, f"{told}\n{status.words()}")

    def menu_shown(self) -> QMenu:
        """The menu as it would open now, with the model that loaded last checked."""
        self._menu.clear()
        settings = self._settings.settings
        for path in dict.fromkeys((settings.model.path, *settings.recent_models, "")):
            entry = self._entry(path)
            entry.setChecked(path == self._settings.kept_path)
            self._menu.addAction(entry)
        self._menu.addSeparator()
        self._menu.addAction(self._library)
        self._menu.addMenu(self._offered)
        self._menu.addAction(self._get)
        self._menu.addAction(self._folder)
        self._menu.addAction(self._file)
        self._menu.addAction(self._more)
        return self._menu

    def show_waits(self, waits: Mapping[str, str]) -> None:
        """Show what loading a model means for the chat, by the models' names."""
        for entry in self._menu.actions():
            words = waits.get(entry.data() or "")
            if words and not entry.isChecked():
                set_tip(entry, words)

    def show_offered(self, models: Sequence[FoundModel]) -> None:
        """Offer the models on this computer, under the program's name."""
        self._offered.clear()
        program = ""
        for model in models[:MOST_OFFERED]:
            if model.program != program:
                program = model.program
                self._say(program)
            entry = self._entry(str(model.path))
            entry.setChecked(str(model.path) == self._settings.kept_path)
            self._offered.addAction(entry)
        if not models:
            self._say(tr("No models of LM Studio, Ollama or Hugging Face"))
        elif len(models) > MOST_OFFERED:
            self._say(tr("{count} more").format(count=len(models) - MOST_OFFERED))

    def _say(self, words: str) -> None:
        """Add a disabled entry to the offered models."""
        said = action(words, self._offered, lambda: None)
        said.setEnabled(False)
        self._offered.addAction(said)

    def _entry(self, path: str) -> QAction:
        entry = action(shown_name(path), self._menu, lambda: self._load(path))
        entry.setCheckable(True)
        entry.setData(shown_name(path))
        return entry

    def _load(self, path: str) -> None:
        self._settings.set_model_path(path)
        status = self._settings.engine.status
        idle = status.model is None and status.phase not in COMING
        if self._settings.needs_load or idle:
            self._settings.load()

    def _open(self) -> None:
        self.search_asked.emit()
        self.menu_shown().popup(self.mapToGlobal(QPoint(0, self.height() + 2)))

    def _draw(self) -> None:
        self.setIcon(theme.icon("chevron_down"))
        self.setIconSize(theme.icon_size(12))
