"""Let the user pick a model folder, or one of the models in a folder."""

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
from desktop.engine.tasks import answered
from desktop.i18n import tr
from desktop.models.model_folders import first_folder, models_in
from desktop.store.settings import AppSettings
from desktop.widgets import dialogs
from desktop.widgets.plain import Button, Label

WIDTH, HEIGHT, ITEM_HEIGHT = 420, 320, 32


async def chosen_model(parent: QWidget, settings: AppSettings) -> str:
    """The folder of the model that was picked, '' for none. Raises SlowFileError."""
    try:
        start = await answered(
            partial(first_folder, settings.model.path, settings.recent_models, os.environ)
        )
    except SlowFileError:
        start = ""
    folder = await dialogs.choose_folder(parent, tr("Choose a model folder"), start)
    if not folder:
        return ""
    models = await answered(partial(models_in, Path(folder)))
    if len(models) == 1:
        return str(models[0])
    dialog = ModelsDialog(models, parent)
    accepted = await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.model() if accepted else ""


class ModelsDialog(QDialog):
    def __init__(self, models: Sequence[Path], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelsDialog")
        self.setWindowTitle(tr("Choose a model folder"))
        self._list = QListWidget()
        self._list.setObjectName("modelsFound")
        found = tr("This folder contains several models. Choose one.")
        self._list.setAccessibleName(found)
        for model in models:
            item = QListWidgetItem(shown_name(str(model)))
            item.setSizeHint(QSize(0, theme.px(ITEM_HEIGHT)))
            item.setData(Qt.ItemDataRole.UserRole, str(model))
            self._list.addItem(item)
        self._list.setCurrentRow(0)
        self._list.itemDoubleClicked.connect(self.accept)
        choose = Button(tr("Choose"), name="modelsChoose", spoken=tr("Choose"))
        choose.setProperty("class", "primary")
        choose.setDefault(True)
        choose.clicked.connect(self.accept)
        cancel = Button(tr("Cancel"), name="modelsCancel", spoken=tr("Cancel"))
        cancel.clicked.connect(self.reject)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(cancel)
        row.addWidget(choose)
        layout = QVBoxLayout(self)
        layout.addWidget(Label(found, style="muted", wraps=True))
        layout.addWidget(self._list, 1)
        layout.addLayout(row)
        self.resize(WIDTH, HEIGHT)

    def model(self) -> str:
        """The path of the selected model, or ''."""
        item = self._list.currentItem()
        return "" if item is None else str(item.data(Qt.ItemDataRole.UserRole))
