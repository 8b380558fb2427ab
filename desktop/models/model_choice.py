"""Has the user pick the folder of a model, wherever models are kept on this computer."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QDialog, QWidget

from core.api.errors import SlowFileError
from desktop.engine.slow_files import answered
from desktop.models.model_folders import first_folder, models_in
from desktop.models.models_dialog import ModelsDialog
from desktop.store.settings import AppSettings
from desktop.widgets import dialogs
from desktop.words.frame import FOLDER_TITLE


async def chosen_model(parent: QWidget, settings: AppSettings) -> str:
    """The folder of the model that was picked, '' for none. Raises SlowFileError."""
    try:
        start = await answered(
            partial(first_folder, settings.model.path, settings.recent_models, os.environ)
        )
    except SlowFileError:
        start = ""
    folder = await dialogs.choose_folder(parent, FOLDER_TITLE, start)
    if not folder:
        return ""
    models = await answered(partial(models_in, Path(folder)))
    if len(models) == 1:
        return str(models[0])
    dialog = ModelsDialog(models, parent)
    accepted = await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.model() if accepted else ""
