"""The chosen model, the recent ones, and the button that loads it."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from core.api.model_info import ModelInfo
from desktop import theme
from desktop.engine.engine_status import EngineStatus, Phase, shown_name
from desktop.i18n import tr
from desktop.numbers import (
    describe_choice,
    describe_load,
    family_name,
    format_bytes,
    format_count,
    precision_name,
)
from desktop.settings.settings import SettingsController
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, ElidedBox, Label, fit_box, named, set_tip


class ModelBox(QWidget):
    load_asked = Signal()

    def __init__(self, settings: SettingsController) -> None:
        super().__init__()
        self._settings = settings
        # The last error, and how many folders had been chosen by then.
        self._told = ("", 0)
        self._folders = fit_box(named(ElidedBox(), "modelFolder", tr("Model folder")), 8)
        self._folders.activated.connect(self._on_folder)
        self.browse = IconButton("folder", tr("Choose a model folder"), name="browseModel")
        self._load = Button(tr("Load"), name="loadModel")
        self._load.clicked.connect(self._act)
        self._words = Label(name="modelWords", wraps=True)
        column(row((self._folders, 1), self.browse, self._load), self._words, of=self)
        settings.changed.connect(self._refresh)
        settings.engine.changed.connect(self._show_status)
        self._refresh()

    def _refresh(self) -> None:
        chosen = self._settings.settings.model.path
        known = ["", *self._settings.settings.recent_models]
        if chosen not in known:
            known.append(chosen)
        self._folders.clear()
        for path in known:
            self._folders.addItem(shown_name(path), path)
        self._folders.setCurrentIndex(known.index(chosen))
        set_tip(self._folders, chosen or tr("The demo model"))
        self._show_status(self._settings.engine.status)

    def _trouble(self, status: EngineStatus) -> str:
        """Returns '' if another folder was chosen since."""
        if status.trouble != self._told[0]:
            self._told = status.trouble, self._settings.choices
        return status.trouble if self._told[1] == self._settings.choices else ""

    def _show_status(self, status: EngineStatus) -> None:
        trouble = self._trouble(status)
        loading = status.phase is Phase.LOADING
        self._load.set_words(tr("Cancel") if loading else tr("Load"))
        self._load.setAccessibleName(tr("Cancel loading") if loading else tr("Load the model"))
        wanted = self._settings.needs_load or status.model is None or bool(trouble)
        self._load.setEnabled(loading or wanted)
        theme.set_class(self._load, "primary" if wanted and not loading else "")
        self._words.setText(self._describe(status, trouble))
        bad = bool(trouble) and not loading
        theme.set_class(self._words, "error small" if bad else "muted small")

    def _describe(self, status: EngineStatus, trouble: str) -> str:
        if trouble and status.phase is not Phase.LOADING:
            return trouble
        cancelled = tr("Loading was cancelled.") if status.cancelled else ""
        model = status.model
        if model is None:
            return cancelled or status.words()
        if self._settings.needs_load:
            return f"{cancelled} {tr('Press Load to apply these settings.')}".strip()
        why = describe_choice(model.precision, model.choice)
        guessing = model.mtp_refused
        if not model.batch_invariant_steps:
            guessing = tr("Speculative decoding is off: it needs another precision or device.")
        parts = (
            cancelled,
            _facts(model),
            why,
            describe_load(model.load),
            model.history_note,
            guessing,
        )
        return " ".join(part for part in parts if part)

    def _on_folder(self, at: int) -> None:
        self._settings.set_model_path(self._folders.itemData(at))

    def _act(self) -> None:
        if self._settings.engine.status.phase is Phase.LOADING:
            self._settings.engine.cancel_load()
        else:
            self._settings.load()
            self.load_asked.emit()


def _facts(model: ModelInfo) -> str:
    return tr(
        "{family}, {parameters} parameters, {reads}. {device}, {precision}; context {length} of "
        "{own} tokens, {each} per token."
    ).format(
        family=family_name(model.family),
        parameters=format_count(model.num_parameters),
        reads=tr("reads pictures") if model.vision else tr("reads text only"),
        device=model.device,
        precision=precision_name(model.precision),
        length=format_count(model.context_length),
        own=format_count(model.model_context_length),
        each=format_bytes(model.bytes_per_token(model.context_length)),
    )
