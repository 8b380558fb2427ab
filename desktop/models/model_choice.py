"""Choose a model: a folder or a GGUF file, also by dropping it.

Models are found in a thread, since a disk may block.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDialog, QListWidget, QListWidgetItem, QWidget

from core.api.errors import SlowFileError
from core.api.limits import PICTURE_FORMATS
from core.api.model_info import SNAPSHOTS, hub_name
from core.gguf.library import SUFFIX, hub_folders, is_model, models_below
from core.library.places import models_in
from desktop import theme
from desktop.engine.engine_status import remember_names, shown_name
from desktop.engine.tasks import answered
from desktop.i18n import tr
from desktop.store.settings import AppSettings
from desktop.widgets import dialogs
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, Label

WIDTH, HEIGHT, ITEM_HEIGHT = 420, 320, 32


async def chosen_model(parent: QWidget, settings: AppSettings, *, file: bool = False) -> str:
    """The path of the model that was picked, '' for none. Raises SlowFileError."""
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
    """The model in dropped files or in a dropped folder, '' if the user picked none of several;
    None if nothing of it is a model. Raises SlowFileError."""
    if all(path.name.lower().endswith(SUFFIX) for path in paths):
        models = [path for path in paths if is_model(path.name)] or list(paths)
        return await _one_of(models, parent)
    return await _one_of(await _models_in(paths[0]), parent)


async def _models_in(folder: Path) -> tuple[Path, ...]:
    models, files = await answered(lambda: (models_in(folder), models_below(folder)))
    remember_names({str(each.path): each.name for each in files})
    return models


def may_be_model(paths: Sequence[Path]) -> bool:
    """False for paths that can't be a model, by their names: several files, or a picture."""
    pictures = {suffix for each in PICTURE_FORMATS for suffix in each.suffixes}
    if len(paths) == 1:
        return paths[0].suffix.lower() not in pictures
    return bool(paths) and all(path.name.lower().endswith(SUFFIX) for path in paths)


async def _one_of(models: Sequence[Path], parent: QWidget) -> str | None:
    """The model, or the one that the user picks of several, or ''; None for no models."""
    if len(models) < 2:
        return str(models[0]) if models else None
    dialog = ModelsDialog(models, parent)
    accepted = await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.model() if accepted else ""


class ModelsDialog(QDialog):
    def __init__(self, models: Sequence[Path], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelsDialog")
        self.setWindowTitle(tr("Choose a model"))
        self._list = QListWidget()
        self._list.setObjectName("modelsFound")
        found = tr("There are several models. Choose one.")
        self._list.setAccessibleName(found)
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
        self.resize(WIDTH, HEIGHT)

    def model(self) -> str:
        """The path of the selected model, or ''."""
        item = self._list.currentItem()
        return "" if item is None else str(item.data(Qt.ItemDataRole.UserRole))


def first_folder(chosen: str, recent: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """The folder of a dialog: next to the last model, or in the hub cache; '' without both."""
    for path in (chosen, *recent):
        if path and (parent := _beside(Path(path))).is_dir():
            return str(parent)
    return next((str(each) for each in hub_folders(Path.home(), environment)), "")


def _beside(model: Path) -> Path:
    if model.parent.name == SNAPSHOTS and hub_name(model.parent.parent.name):
        return model.parents[2]
    return model.parent
