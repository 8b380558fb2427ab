"""The settings in force: changed one at a time, written at once, given to the engine when asked."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.api.errors import BudgetTooSmallError, ErrorInfo
from core.api.params import ModelSettings
from desktop.controllers.engine import EngineController
from desktop.item_models.budgets import too_small
from desktop.item_models.setting_rows import SettingRow
from desktop.store.settings import AppSettings, SettingsFile


class SettingsController(QObject):
    """Holds the one AppSettings value.

    Signals:
        changed(): another value is in force.
        said(str): what went wrong with the file.
    """

    changed = Signal()
    said = Signal(str)

    def __init__(
        self, file: SettingsFile, engine: EngineController, contexts: Path | None = None
    ) -> None:
        super().__init__()
        self.engine = engine
        self._contexts = contexts
        # What the engine said of a budget it could not work with, until it works again.
        self.budget_trouble = ""
        self._file = file
        self.settings, self.notice = file.load()
        # What the loaded model was loaded with; settings of the model differ from it until Load.
        self.loaded: ModelSettings = self.settings.model_to_load(contexts)

    @property
    def needs_load(self) -> bool:
        """Whether the model's settings are other than those it was loaded with."""
        return self.settings.model_to_load(self._contexts) != self.loaded

    def set_value(self, row: SettingRow, value: object) -> str:
        """Change one setting; returns words if the value is not allowed, '' otherwise."""
        words = too_small(row.key, value, self.engine.model)
        if words:
            return f"{words} The budget stays as it was."
        try:
            settings = row.changed(self.settings, value)
        except ValueError:
            return f"{row.title} takes {row.bounds_in_words()}."
        self._put(settings)
        return ""

    def set_model_path(self, path: str) -> None:
        """Choose another model folder; it is loaded by `load`."""
        self._put(self.settings.with_model(self.settings.model.model_copy(update={"path": path})))

    def note_outcome(self, error: ErrorInfo | None) -> None:
        """A request ended, well or with `error`: say beside the budgets if one was too small."""
        small = error is not None and error.name == BudgetTooSmallError.__name__
        words = error.message if error is not None and small else ""
        if words != self.budget_trouble:
            self.budget_trouble = words
            self.changed.emit()

    def load(self) -> None:
        """Load the model that is set."""
        self.loaded = self.settings.model_to_load(self._contexts)
        self.engine.load(self.loaded)
        self.changed.emit()

    def delete_matrices(self) -> None:
        """Delete the quantised weights that are kept on disk; no loaded model needs them."""
        if self._contexts is not None:
            self.engine.delete_matrices(self._contexts)

    def begin(self) -> None:
        """Start the engine with the model that is set."""
        self.engine.begin(self.loaded)

    def _put(self, settings: AppSettings) -> None:
        if settings == self.settings:
            return
        self.settings = settings
        try:
            self._file.save(settings)
        except OSError as error:
            self.said.emit(f"The settings could not be written: {error}.")
        self.changed.emit()
