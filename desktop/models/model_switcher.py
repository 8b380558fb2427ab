"""The model's name in the header, with a menu of recent models, a folder and the settings."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from desktop import theme
from desktop.engine.engine_status import EngineStatus, Phase, model_name, shown_name
from desktop.i18n import tr
from desktop.settings.settings import SettingsController
from desktop.widgets.plain import ToolButton, action, set_tip

WIDEST_PX = 160
# The arrow and the margins.
FRAME_PX = 46
COMING = (Phase.STARTING, Phase.LOADING, Phase.RESTARTING)


class ModelSwitcher(ToolButton):
    """Signals:
    folder_asked(): the user wants to pick a model folder.
    settings_asked(): the user wants to see the model settings.
    """

    folder_asked = Signal()
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
        # The button is right-to-left to have its arrow after the name; the menu isn't.
        self._menu.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._folder = action(tr("Choose a folder…"), self, self.folder_asked.emit)
        self._folder.setObjectName("actionChooseModel")
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
        self._menu.addAction(self._folder)
        self._menu.addAction(self._more)
        return self._menu

    def _entry(self, path: str) -> QAction:
        entry = action(shown_name(path), self._menu, lambda: self._load(path))
        entry.setCheckable(True)
        return entry

    def _load(self, path: str) -> None:
        self._settings.set_model_path(path)
        status = self._settings.engine.status
        idle = status.model is None and status.phase not in COMING
        if self._settings.needs_load or idle:
            self._settings.load()

    def _open(self) -> None:
        self.menu_shown().popup(self.mapToGlobal(QPoint(0, self.height() + 2)))

    def _draw(self) -> None:
        self.setIcon(theme.icon("chevron_down"))
        self.setIconSize(theme.icon_size(12))
