"""The button below the budget of quantised weights: deletes what is kept on disk."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QWidget

from desktop.engine.engine_status import EngineStatus
from desktop.settings.settings import SettingsController
from desktop.widgets.plain import Button
from desktop.words import settings as words


class QuantisedWeights(QWidget):
    """Can be pressed while the engine runs and, as far as is known, something is kept.

    Nobody is asked twice: all it costs is that the next load quantises again.
    """

    def __init__(self, settings: SettingsController) -> None:
        super().__init__()
        self._delete = Button(
            words.DELETE_KEPT,
            name="deleteKeptWeights",
            spoken=words.DELETE_KEPT_SPOKEN,
            tip=words.DELETE_KEPT_TIP,
        )
        self._delete.clicked.connect(settings.delete_matrices)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._delete)
        layout.addStretch(1)
        settings.engine.changed.connect(self._show_status)
        self._show_status(settings.engine.status)

    def _show_status(self, status: EngineStatus) -> None:
        something = status.model is None or status.model.load.kept_bytes > 0
        self._delete.setEnabled(status.runs and something)
