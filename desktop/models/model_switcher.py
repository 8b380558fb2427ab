"""The model's name in the header, with a menu of recent models and those of other programs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from core.gguf.library import FoundModel
from core.remote.messages import Place, RemoteServer
from desktop import theme
from desktop.engine.engine_status import COMING, EngineStatus, model_name, shown_name
from desktop.i18n import tr
from desktop.remote.remote import place_words, server_words
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
    # Place | None: the user wants replies from a server, or from this computer.
    place_asked = Signal(object)
    # The user wants to add or remove servers.
    servers_asked = Signal()

    def __init__(self, settings: SettingsController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelName")
        self.setProperty("class", "chip")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._settings = settings
        self._place: Place | None = None
        self._menu = QMenu(self)
        self._menu.setObjectName("modelMenu")
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
        self._remote = QMenu(tr("On a server"), self)
        self._remote.setObjectName("modelsRemote")
        self._remote.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._servers = action(tr("Add a server…"), self, self.servers_asked.emit)
        self._servers.setObjectName("actionServers")
        self._more = action(tr("Model settings"), self, self.settings_asked.emit)
        self._more.setObjectName("actionModelSettings")
        self.clicked.connect(self._open)
        theme.signals().changed.connect(self._draw)
        self._draw()

    def show_status(self, status: EngineStatus, place: Place | None = None) -> None:
        """Show the loaded model, or the one of a server that answers the shown chat."""
        model, self._place = status.model, place
        name = tr("No model")
        if place is not None:
            name = place.model
        elif model is not None:
            name = model_name(model)
        elif status.phase in COMING:
            name = shown_name(self._settings.loaded.path)
        room = WIDEST_PX - FRAME_PX
        self.set_words(self.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, room))
        self.setAccessibleName(tr("Model: {name}").format(name=name))
        told = tr("Choose a model") if model is None else f"{model.name}\n{model.path}"
        if place is not None:
            told = f"{place.model}\n{place_words(place)}"
        set_tip(self, f"{told}\n{status.words()}")

    def menu_shown(self) -> QMenu:
        """The menu as it would open now, with the model that loaded last checked."""
        self._menu.clear()
        settings = self._settings.settings
        for path in dict.fromkeys((settings.model.path, *settings.recent_models, "")):
            entry = self._entry(path)
            entry.setChecked(path == self._settings.kept_path and self._place is None)
            self._menu.addAction(entry)
        self._menu.addSeparator()
        self._offer_servers()
        self._menu.addMenu(self._remote)
        self._menu.addAction(self._library)
        self._menu.addMenu(self._offered)
        self._menu.addAction(self._get)
        self._menu.addAction(self._folder)
        self._menu.addAction(self._file)
        self._menu.addAction(self._more)
        return self._menu

    def _offer_servers(self) -> None:
        self._remote.clear()
        for server in self._settings.settings.remote.servers:
            self._say(server_words(server), self._remote)
            for model in server.models[:MOST_OFFERED]:
                self._remote.addAction(self._place_entry(server, model.name))
            self._remote.addSeparator()
        self._remote.addAction(self._servers)

    def _place_entry(self, server: RemoteServer, model: str) -> QAction:
        place = Place(address=server.address, model=model)
        entry = action(model, self._remote, lambda: self.place_asked.emit(place))
        entry.setCheckable(True)
        entry.setChecked(place == self._place)
        return entry

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

    def _say(self, words: str, menu: QMenu | None = None) -> None:
        """Add a disabled entry to the offered models, or to another menu."""
        menu = menu or self._offered
        said = action(words, menu, lambda: None)
        said.setEnabled(False)
        menu.addAction(said)

    def _entry(self, path: str) -> QAction:
        entry = action(shown_name(path), self._menu, lambda: self._load(path))
        entry.setCheckable(True)
        return entry

    def _load(self, path: str) -> None:
        if self._place is not None:
            self.place_asked.emit(None)
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
