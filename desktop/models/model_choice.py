"""Choose a model: a folder, a GGUF file, a drop, or the header's menu."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QDialog, QListWidget, QListWidgetItem, QMenu, QSizePolicy, QWidget

from core.api.errors import SlowFileError
from core.api.limits import PICTURE_FORMATS
from core.api.model_info import SNAPSHOTS, hub_name
from core.gguf.library import SUFFIX, FoundModel, hub_folders, is_model, models_below
from core.library.places import models_in
from core.remote.connection import host_of
from core.remote.messages import Place, RemoteServer
from desktop import theme
from desktop.engine.engine_status import (
    COMING,
    EngineStatus,
    model_name,
    remember_names,
    shown_name,
)
from desktop.engine.tasks import answered
from desktop.i18n import tr
from desktop.remote.remote import server_words
from desktop.settings.settings import SettingsController
from desktop.store.settings import AppSettings
from desktop.widgets import dialogs
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, Label, ToolButton, action, named, set_tip

WIDTH, HEIGHT, ITEM_HEIGHT = 420, 320, 32
# Models of other programs in the menu; more are found by choosing a folder.
MOST_OFFERED = 100
WIDEST_PX = 160
# The arrow and the margins.
FRAME_PX = 46


async def chosen_model(parent: QWidget, settings: AppSettings, *, file: bool = False) -> str:
    """Returns '' for none. Raises SlowFileError."""
    try:
        start = await answered(
            partial(first_folder, settings.model.path, settings.recent_models, os.environ)
        )
    except SlowFileError:
        start = ""
    if file:
        return await dialogs.choose_model_file(parent, tr("Choose a GGUF file"), start)
    folder = await dialogs.choose_folder(parent, tr("Choose a model folder"), start)
    if not folder:
        return ""
    return await _one_of(await _models_in(Path(folder)), parent) or folder


async def dropped_model(parent: QWidget, paths: Sequence[Path]) -> str | None:
    """'' if the user picked none; None if nothing of it is a model. Raises SlowFileError."""
    if all(path.name.lower().endswith(SUFFIX) for path in paths):
        models = [path for path in paths if is_model(path.name)] or list(paths)
        return await _one_of(models, parent)
    return await _one_of(await _models_in(paths[0]), parent)


async def _models_in(folder: Path) -> tuple[Path, ...]:
    models, files = await answered(lambda: (models_in(folder), models_below(folder)))
    remember_names({str(each.path): each.name for each in files})
    return models


def may_be_model(paths: Sequence[Path]) -> bool:
    """Judged by names: False for several files or a picture."""
    pictures = {suffix for each in PICTURE_FORMATS for suffix in each.suffixes}
    if len(paths) == 1:
        return paths[0].suffix.lower() not in pictures
    return bool(paths) and all(path.name.lower().endswith(SUFFIX) for path in paths)


async def _one_of(models: Sequence[Path], parent: QWidget) -> str | None:
    """The model that the user picks of several, or ''; None for no models."""
    if len(models) < 2:
        return str(models[0]) if models else None
    dialog = ModelsDialog(models, parent)
    accepted = await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.model() if accepted else ""


class ModelsDialog(Dialog):
    def __init__(self, models: Sequence[Path], parent: QWidget | None = None) -> None:
        super().__init__("modelsDialog", tr("Choose a model"), parent)
        found = tr("There are several models. Choose one.")
        self._list = named(QListWidget(), "modelsFound", found)
        for model in models:
            item = QListWidgetItem(shown_name(str(model)))
            item.setSizeHint(QSize(0, theme.px(ITEM_HEIGHT)))
            item.setData(Qt.ItemDataRole.UserRole, str(model))
            self._list.addItem(item)
        self._list.setCurrentRow(0)
        self._list.itemDoubleClicked.connect(self.accept)
        choose = Button(tr("Choose"), name="modelsChoose", style="primary")
        choose.setDefault(True)
        choose.clicked.connect(self.accept)
        cancel = Button(tr("Cancel"), name="modelsCancel")
        cancel.clicked.connect(self.reject)
        said = Label(found, style="muted", wraps=True)
        buttons = row(None, cancel, choose)
        column(said, (self._list, 1), buttons, of=self, margins=(11, 11, 11, 11))
        self.fit(WIDTH, HEIGHT)

    def model(self) -> str:
        item = self._list.currentItem()
        return "" if item is None else str(item.data(Qt.ItemDataRole.UserRole))


def first_folder(chosen: str, recent: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """The folder next to the last model, or the hub cache."""
    for path in (chosen, *recent):
        if path and os.path.isdir(parent := _beside(Path(path))):
            return str(parent)
    return next((str(each) for each in hub_folders(Path.home(), environment)), "")


def _beside(model: Path) -> Path:
    if model.parent.name == SNAPSHOTS and hub_name(model.parent.parent.name):
        return model.parents[2]
    return model.parent


class ModelSwitcher(ToolButton):
    folder_asked = Signal()
    file_asked = Signal()
    get_asked = Signal()
    library_asked = Signal()
    compare_asked = Signal()
    # The menu opens, and wants the models of other programs.
    search_asked = Signal()
    settings_asked = Signal()
    # Place | None: the user wants replies from a server, or from this computer.
    place_asked = Signal(object)
    servers_asked = Signal()

    def __init__(self, settings: SettingsController) -> None:
        super().__init__()
        self.setObjectName("modelName")
        self.setProperty("class", "chip")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._settings = settings
        self._place: Place | None = None
        self._menu = named(QMenu(self), "modelMenu")
        self._menu.setToolTipsVisible(True)
        # The button is right-to-left to have its arrow after the name; the menu isn't.
        self._menu.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._folder = action(
            tr("Choose a folder…"), self, self.folder_asked.emit, "actionChooseModel"
        )
        self._file = action(
            tr("Choose a GGUF file…"), self, self.file_asked.emit, "actionChooseFile"
        )
        self._get = action(tr("Get a model…"), self, self.get_asked.emit, "actionDownloadModel")
        self._library = action(tr("All models…"), self, self.library_asked.emit, "actionAllModels")
        self._compare = action(
            tr("Compare two models…"), self, self.compare_asked.emit, "actionCompareModels"
        )
        self._offered = named(QMenu(tr("On this computer"), self), "modelsOffered")
        self._offered.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._say(tr("Looking for models…"))
        self._remote = named(QMenu(tr("On a server"), self), "modelsRemote")
        self._remote.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._servers = action(
            tr("Add a server…"), self, self.servers_asked.emit, "actionAddServer"
        )
        self._more = action(
            tr("Model settings"), self, self.settings_asked.emit, "actionModelSettings"
        )
        self.clicked.connect(self._open)
        theme.signals().changed.connect(self._draw)
        self._draw()

    def show_status(self, status: EngineStatus, place: Place | None = None) -> None:
        """`place` answers the shown chat; None is the loaded model."""
        model, self._place = status.model, place
        name = tr("No model")
        if place is not None:
            name = place.model
        elif model is not None:
            name = model_name(model)
        elif status.phase in COMING or status.asleep:
            name = shown_name(self._settings.loaded.path)
        room = WIDEST_PX - FRAME_PX
        self.set_words(self.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, room))
        self.setAccessibleName(tr("Model: {name}").format(name=name))
        told = tr("Choose a model") if model is None else f"{model.name}\n{model.path}"
        if place is not None:
            set_tip(self, f"{place.model}\n{host_of(place.address)}")
            return
        set_tip(self, f"{told}\n{status.words()}")

    def menu_shown(self) -> QMenu:
        self._menu.clear()
        settings = self._settings.settings
        for path in dict.fromkeys((settings.model.path, *settings.recent_models, "")):
            entry = self._entry(path)
            entry.setChecked(path == self._settings.kept_path and self._place is None)
            self._menu.addAction(entry)
        self._menu.addSeparator()
        self._offer_servers()
        self._menu.addAction(self._library)
        self._menu.addMenu(self._offered)
        self._menu.addMenu(self._remote)
        self._menu.addAction(self._compare)
        self._menu.addAction(self._get)
        self._menu.addAction(self._folder)
        self._menu.addAction(self._file)
        self._menu.addAction(self._more)
        return self._menu

    def show_waits(self, waits: Mapping[str, str]) -> None:
        """Keyed by the models' names."""
        for entry in self._menu.actions():
            words = waits.get(entry.data() or "")
            if words and not entry.isChecked():
                set_tip(entry, words)

    def show_offered(self, models: Sequence[FoundModel]) -> None:
        self._offered.clear()
        program: str | None = None
        for model in models[:MOST_OFFERED]:
            if model.program != program:
                program = model.program
                self._say(program or tr("Other folders"))
            entry = self._entry(str(model.path))
            entry.setChecked(str(model.path) == self._settings.kept_path)
            self._offered.addAction(entry)
        if not models:
            self._say(tr("No models of LM Studio, Ollama or Hugging Face"))
        elif len(models) > MOST_OFFERED:
            self._say(tr("{count} more").format(count=len(models) - MOST_OFFERED))

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

    def _say(self, words: str, menu: QMenu | None = None) -> None:
        menu = menu or self._offered
        said = action(words, menu, lambda: None)
        said.setEnabled(False)
        menu.addAction(said)

    def _entry(self, path: str) -> QAction:
        entry = action(shown_name(path), self._menu, lambda: self._load(path))
        entry.setCheckable(True)
        entry.setData(shown_name(path))
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
