"""Let the user pick a model folder."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QDialog, QWidget

from core.api.errors import SlowFileError
from desktop.engine.tasks import answered
from desktop.i18n import tr
from desktop.models.model_folders import first_folder, models_in
from desktop.models.models_dialog import ModelsDialog
from desktop.store.settings import AppSettings
from desktop.widgets import dialogs


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
