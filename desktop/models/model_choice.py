"""Lets the user pick the folder of a model, wherever models are kept on this computer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from core.api.errors import SlowFileError
from desktop import theme
from desktop.engine.engine_status import shown_name
from desktop.engine.slow_files import answered
from desktop.models.model_folders import first_folder, models_in
from desktop.store.settings import AppSettings
from desktop.widgets import dialogs
from desktop.widgets.plain import Button, Label
from desktop.words import frame as words

WIDTH, HEIGHT, ITEM_HEIGHT = 420, 320, 32


async def chosen_model(parent: QWidget, settings: AppSettings) -> str:
    """The folder of the model that was picked, '' for none. Raises SlowFileError."""
    try:
        start = await answered(
            partial(first_folder, settings.model.path, settings.recent_models, os.environ)
        )
    except SlowFileError:
        start = ""
    folder = await dialogs.choose_folder(parent, words.FOLDER_TITLE, start)
    if not folder:
        return ""
    models = await answered(partial(models_in, Path(folder)))
    if len(models) == 1:
        return str(models[0])
    dialog = ModelsDialog(models, parent)
    accepted = await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.model() if accepted else ""


class ModelsDialog(QDialog):
    """Asks which of the models in the chosen folder is meant."""

    def __init__(self, models: Sequence[Path], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelsDialog")
        self.setWindowTitle(words.FOLDER_TITLE)
        self._list = QListWidget()
        self._list.setObjectName("modelsFound")
        self._list.setAccessibleName(words.MODELS_FOUND)
        for model in models:
            item = QListWidgetItem(shown_name(str(model)))
            item.setSizeHint(QSize(0, theme.px(ITEM_HEIGHT)))
            item.setData(Qt.ItemDataRole.UserRole, str(model))
            self._list.addItem(item)
        self._list.setCurrentRow(0)
        self._list.itemDoubleClicked.connect(self.accept)
        choose = Button(words.CHOOSE_MODEL, name="modelsChoose", spoken=words.CHOOSE_MODEL)
        choose.setProperty("class", "primary")
        choose.setDefault(True)
        choose.clicked.connect(self.accept)
        cancel = Button(words.CANCEL, name="modelsCancel", spoken=words.CANCEL)
        cancel.clicked.connect(self.reject)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(cancel)
        row.addWidget(choose)
        layout = QVBoxLayout(self)
        layout.addWidget(Label(words.MODELS_FOUND, style="muted", wraps=True))
        layout.addWidget(self._list, 1)
        layout.addLayout(row)
        self.resize(WIDTH, HEIGHT)

    def model(self) -> str:
        """The path of the selected model; '' if none is."""
        item = self._list.currentItem()
        return "" if item is None else str(item.data(Qt.ItemDataRole.UserRole))
