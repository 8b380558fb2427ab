"""The settings in force: changed one at a time, written at once, applied by the engine."""

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
from core.api.params import ModelSettings, Settings
from desktop.engine.engine import EngineController
from desktop.engine.engine_status import rename_models
from desktop.engine.error_words import in_language
from desktop.i18n import tr
from desktop.number_format import number
from desktop.numbers import format_count
from desktop.settings.budgets import ON_DISK, too_large, too_small
from desktop.settings.setting_rows import SettingRow, row_of
from desktop.store.settings import AppSettings, kept_path
from desktop.store.settings_file import SettingsFile

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
    changed = Signal()
    # What went wrong with the file.
    said = Signal(str)

    def __init__(
        self, file: SettingsFile, engine: EngineController, contexts: Path | None = None
    ) -> None:
        super().__init__()
        self.engine = engine
        self._contexts = contexts
        # The engine's last error, if a budget was too small.
        self.budget_trouble = ""
        self._file = file
        self.settings, self.notice = file.load()
        self._give_names()
        # The folder of the model that loaded last. A chosen one is in `settings` at once, and in
        # the file once it has loaded.
        self.kept_path = self.settings.model.path
        # How often a folder was chosen.
        self.choices = 0
        # The settings of the loaded model; `settings.model` may differ until Load.
        self.loaded: ModelSettings = self.settings.model_to_load(contexts)
        engine.model_loaded.connect(self._on_loaded)
        engine.load_failed.connect(self._on_load_failed)

    def to_load(self, path: str) -> ModelSettings:
        """Settings that the model at `path` would be loaded with."""
        return self.settings.switched(path).model_to_load(self._contexts)

    @property
    def needs_load(self) -> bool:
        return self.settings.model_to_load(self._contexts) != self.loaded

    def set_value(self, key: str, value: object) -> str:
        """Returns why the value is not allowed, '' if it is."""
        trouble = too_small(key, value, self.engine.model)
        trouble = trouble or too_large(key, value, self._most(key))
        if trouble:
            return f"{trouble} " + tr("The budget was not changed.")
        longest, row = self._longest(key), row_of(key)
        if longest is not None and isinstance(value, int) and value > longest:
            return tr(
                "{} is more than this model can hold: its context has at most {} tokens. The "
                "setting was not changed."
            ).format(format_count(value), format_count(longest))
        try:
            settings = row.changed(self.settings, value)
        except ValueError:
            return out_of_range(row, value)
        self._put(settings)
        return ""

    def set_model_path(self, path: str) -> None:
        """It is loaded by `load`."""
        self.choices += 1
        self._put(self.settings.with_model(path))
        self.changed.emit()

    def set_name(self, path: str, name: str) -> None:
        """'' restores the published one."""
        self._put(self.settings.with_name(kept_path(path), name))

    def follow(self, before: str, now: str) -> None:
        """The model at the path `before` was moved."""
        if self.kept_path == before:
            self.kept_path = now
        self._put(self.settings.with_moved(before, now))
        self.changed.emit()

    def put(self, **sections: Settings) -> None:
        """Replace whole sections: `put(server=...)`."""
        self._put(self.settings.model_copy(update=sections))

    def restore(self, rows: Sequence[SettingRow]) -> Callable[[], None]:
        """Returns a function that undoes it."""
        usual, settings = AppSettings(), self.settings
        before = [(row, row.value_in(settings)) for row in rows]
        self._put_all([(row, row.value_in(usual)) for row in rows])
        return lambda: self._put_all(before)

    def _put_all(self, values: Sequence[tuple[SettingRow, object]]) -> None:
        settings = self.settings
        for row, value in values:
            settings = row.changed(settings, value)
        self._put(settings)

    def set_shortcuts(self, shortcuts: dict[str, str]) -> None:
        self.put(window=self.settings.window.model_copy(update={"shortcuts": shortcuts}))

    def fold(self, part: str, folded: bool) -> None:
        window = self.settings.window
        others = tuple(each for each in window.folded if each != part)
        kept = (*others, part) if folded else others
        self.put(window=window.model_copy(update={"folded": kept}))

    def _longest(self, key: str) -> int | None:
        """If the chosen model is the loaded one."""
        model = self.engine.model
        loaded = self.settings.model_to_load(self._contexts).path == self.loaded.path
        if model is None or not loaded or key != CONTEXT_KEY:
            return None
        return model.model_context_length

    def _most(self, key: str) -> int | None:
        """The bytes of this computer's memory or disk, if known."""
        if key == "cache.host_bytes":
            # Imported late: used rarely, and takes a megabyte of memory.
            import psutil

            return psutil.virtual_memory().total
        if key in ON_DISK and self._contexts is not None:
            with contextlib.suppress(OSError):
                return shutil.disk_usage(self._contexts).total
        return None

    def note_outcome(self, error: ErrorInfo | None) -> None:
        small = error is not None and error.name == BudgetTooSmallError.__name__
        trouble = in_language(error.message) if error is not None and small else ""
        if trouble != self.budget_trouble:
            self.budget_trouble = trouble
            self.changed.emit()

    def load(self) -> None:
        self.loaded = self.settings.model_to_load(self._contexts)
        self.engine.load(self.loaded)
        self.changed.emit()

    def delete_matrices(self) -> None:
        """A loaded model doesn't need them."""
        if self._contexts is not None:
            self.engine.delete_matrices(self._contexts)

    def begin(self) -> None:
        self.engine.begin(self.loaded)

    def _on_loaded(self, _model: object) -> None:
        # After a restart of the worker it may not be the one asked for last.
        self.loaded = self.engine.loaded or self.loaded
        self.kept_path = kept_path(self.loaded.path)
        self._put(self.settings.with_recent(self.loaded.path), again=True)
        self.changed.emit()

    def _on_load_failed(self, error: ErrorInfo) -> None:
        failed = self.loaded
        if self.engine.client.model is not None:
            # The previous model is still loaded.
            self.loaded = self.engine.loaded or failed
        if error.name not in NOT_THE_FOLDERS:
            settings = self.settings.without_recent(failed.path)
            if kept_path(failed.path) == settings.model.path:
                # No other model was chosen meanwhile.
                settings = settings.switched_back(self.kept_path)
            self._put(settings)
        self.changed.emit()

    def _give_names(self) -> None:
        rename_models({each.path: each.name for each in self.settings.library.models if each.name})

    def _put(self, settings: AppSettings, again: bool = False) -> None:
        if settings == self.settings and not again:
            return
        self.settings = settings
        self._give_names()
        try:
            self._file.save(settings.switched(self.kept_path))
        except OSError as error:
            self.said.emit(tr("The settings could not be saved: {}.").format(error))
        self.changed.emit()


def out_of_range(row: SettingRow, value: object) -> str:
    given = number(value) if isinstance(value, int | float) else str(value)
    return tr(
        "{given} is out of range: {title} takes {bounds}. The setting was not changed."
    ).format(given=given, title=row.title, bounds=row.bounds_in_words())
