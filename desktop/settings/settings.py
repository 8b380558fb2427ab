"""The settings in force: changed one at a time, written at once, given to the engine when asked."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.api.errors import (
    BudgetTooSmallError,
    EngineDiedError,
    ErrorInfo,
    NotEnoughMemoryError,
    RequestCancelled,
    UnsupportedDeviceError,
)
from core.api.params import ModelSettings
from desktop.engine.engine import EngineController
from desktop.number_format import number
from desktop.settings.budgets import too_large, too_small
from desktop.settings.setting_rows import DISK_ROW, HOST_ROW, WEIGHTS_ROW, SettingRow
from desktop.store.settings import AppSettings, SettingsFile, kept_path
from desktop.words import settings as words

# A load may fail for these reasons with a folder that is as it should be.
NOT_THE_FOLDERS = frozenset(
    kind.__name__
    for kind in (
        RequestCancelled,
        NotEnoughMemoryError,
        BudgetTooSmallError,
        UnsupportedDeviceError,
        EngineDiedError,
    )
)


CONTEXT_KEY = "model.context_length"


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
        # The folder of the model that loaded last. Another one is in `settings` from its choice on,
        # and in the file once it has loaded.
        self.kept_path = self.settings.model.path
        # How often a folder was chosen.
        self.choices = 0
        # What the loaded model was loaded with; settings of the model differ from it until Load.
        self.loaded: ModelSettings = self.settings.model_to_load(contexts)
        engine.model_loaded.connect(self._on_loaded)
        engine.load_failed.connect(self._on_load_failed)

    @property
    def needs_load(self) -> bool:
        """Whether the model's settings are other than those it was loaded with."""
        return self.settings.model_to_load(self._contexts) != self.loaded

    def set_value(self, row: SettingRow, value: object) -> str:
        """Change one setting; returns words if the value is not allowed, '' otherwise."""
        trouble = too_small(row.key, value, self.engine.model)
        trouble = trouble or too_large(row.key, value, self._most(row.key))
        if trouble:
            return f"{trouble} {words.BUDGET_STAYS}"
        longest = self._longest(row)
        if longest is not None and isinstance(value, int) and value > longest:
            return words.too_long(value, longest)
        try:
            settings = row.changed(self.settings, value)
        except ValueError:
            given = number(value) if isinstance(value, int | float) else str(value)
            return words.out_of_range(row.title, given, row.bounds_in_words())
        self._put(settings)
        return ""

    def set_model_path(self, path: str) -> None:
        """Choose another model folder; it is loaded by `load`."""
        self.choices += 1
        self._put(self.settings.with_model(self.settings.model.model_copy(update={"path": path})))
        self.changed.emit()

    def restore(self, rows: Sequence[SettingRow]) -> Callable[[], None]:
        """Give these settings their first values again; returns what undoes it."""
        usual, settings = AppSettings(), self.settings
        before = [(row, row.value_in(settings)) for row in rows]
        self._put_all([(row, row.value_in(usual)) for row in rows])
        return lambda: self._put_all(before)

    def _put_all(self, values: Sequence[tuple[SettingRow, object]]) -> None:
        settings = self.settings
        for row, value in values:
            settings = row.changed(settings, value)
        self._put(settings)

    def fold(self, part: str, folded: bool) -> None:
        """Remember that a part of the settings is folded, or that it is not."""
        window = self.settings.window
        others = tuple(each for each in window.folded if each != part)
        kept = (*others, part) if folded else others
        self._put(
            self.settings.model_copy(update={"window": window.model_copy(update={"folded": kept})})
        )

    def _longest(self, row: SettingRow) -> int | None:
        """The longest context of the model that is set, in tokens, where it is the loaded one."""
        model = self.engine.model
        loaded = self.settings.model_to_load(self._contexts).path == self.loaded.path
        is_row = row.key == CONTEXT_KEY
        return model.model_context_length if model is not None and loaded and is_row else None

    def _most(self, key: str) -> int | None:
        """The bytes that there are of what a budget is about; None where that is not known."""
        if key == HOST_ROW.key:
            # Asked rarely, and a megabyte of the window's memory.
            import psutil

            return psutil.virtual_memory().total
        if key in (DISK_ROW.key, WEIGHTS_ROW.key) and self._contexts is not None:
            with contextlib.suppress(OSError):
                return shutil.disk_usage(self._contexts).total
        return None

    def note_outcome(self, error: ErrorInfo | None) -> None:
        """A request ended, well or with `error`: say beside the budgets if one was too small."""
        small = error is not None and error.name == BudgetTooSmallError.__name__
        trouble = error.message if error is not None and small else ""
        if trouble != self.budget_trouble:
            self.budget_trouble = trouble
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

    def _on_loaded(self, _model: object) -> None:
        # After a death it may be another one than was asked for last.
        self.loaded = self.engine.loaded or self.loaded
        self.kept_path = kept_path(self.loaded.path)
        self._put(self.settings.with_recent(self.loaded.path), again=True)
        self.changed.emit()

    def _on_load_failed(self, error: ErrorInfo) -> None:
        failed = self.loaded
        if self.engine.client.model is not None:
            # The model before it has stayed.
            self.loaded = self.engine.loaded or failed
        if error.name not in NOT_THE_FOLDERS:
            settings = self.settings.without_recent(failed.path)
            if kept_path(failed.path) == settings.model.path:
                # Nobody has chosen yet another one meanwhile.
                model = settings.model.model_copy(update={"path": self.kept_path})
                settings = settings.model_copy(update={"model": model})
            self._put(settings)
        self.changed.emit()

    def _put(self, settings: AppSettings, again: bool = False) -> None:
        """Have these settings in force and in the file; `again` writes the same ones too."""
        if settings == self.settings and not again:
            return
        self.settings = settings
        model = settings.model.model_copy(update={"path": self.kept_path})
        try:
            self._file.save(settings.model_copy(update={"model": model}))
        except OSError as error:
            self.said.emit(words.not_written(str(error)))
        self.changed.emit()
