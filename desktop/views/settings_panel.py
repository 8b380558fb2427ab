"""Model & settings: everything the user may set, group by group, built from the declared rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from desktop.controllers.settings import SettingsController
from desktop.item_models.setting_rows import (
    AHEAD_ROWS,
    BUDGET_ROWS,
    CHECKPOINT_ROWS,
    DEVICE_ROW,
    MODEL_ROWS,
    SAMPLING_ROWS,
    THINKING_ROW,
    SettingRow,
)
from desktop.views.budget_editor import BudgetEditor
from desktop.views.kept_weights import KeptWeights
from desktop.views.model_box import ModelBox
from desktop.views.plain import Label
from desktop.views.setting_editor import SettingEditor
from desktop.words.numbers import format_count


class SettingsPanel(QScrollArea):
    """The settings. Those of the model take effect with Load, the others with the next message."""

    def __init__(self, settings: SettingsController) -> None:
        super().__init__()
        self.setObjectName("settingsPanel")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._settings = settings
        self.model_box = ModelBox(settings)
        self._editors: list[SettingEditor] = []
        self._budgets = [BudgetEditor(row, settings) for row in BUDGET_ROWS]
        self._trouble = Label(name="budgetTrouble", style="error small", wraps=True)
        content = QWidget()
        self._layout = QVBoxLayout(content)
        self._layout.setContentsMargins(14, 12, 14, 12)
        self._layout.setSpacing(12)
        self._build()
        self.setWidget(content)
        # A scroll area fills its widget with the window's colour; here the side's shows through.
        content.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
        settings.changed.connect(self._show_trouble)
        settings.engine.changed.connect(self._on_engine)
        self._on_engine()

    def _build(self) -> None:
        self._add_group("Model", (), self.model_box)
        self._add_rows(MODEL_ROWS)
        self._add_group("Checkpoints", CHECKPOINT_ROWS)
        self._add_group("Budgets", (), self._trouble, *self._budgets, KeptWeights(self._settings))
        self._add_group("In idle time", AHEAD_ROWS)
        self._add_group("Thinking", (THINKING_ROW,))
        self._add_group("Sampling", SAMPLING_ROWS)
        self._layout.addStretch(1)

    def _add_group(self, title: str, rows: Sequence[SettingRow], *more: QWidget) -> None:
        self._layout.addWidget(Label(title, style="heading"))
        self._add_rows(rows)
        for widget in more:
            self._layout.addWidget(widget)

    def _add_rows(self, rows: Sequence[SettingRow]) -> None:
        for row in rows:
            editor = SettingEditor(row, self._settings, partial(self._models_own, row))
            self._editors.append(editor)
            self._layout.addWidget(editor)

    def _models_own(self, row: SettingRow) -> str:
        """What an empty field stands for with the loaded model."""
        model = self._settings.engine.model
        section, _, name = row.key.partition(".")
        if name == "seed":
            return "A fresh one each time"
        if name == "max_tokens":
            return "As long as the context allows"
        if model is None:
            return ""
        if row.key == "model.context_length":
            return format_count(model.context_length)
        own = getattr(model.sampling, name, None) if section == "sampling" else None
        return "" if own is None else f"The model's own: {own:g}"

    def _on_engine(self) -> None:
        model = self._settings.engine.model
        for editor in self._editors:
            editor.refresh()
            if editor.row is THINKING_ROW:
                editor.setEnabled(model is None or model.thinking_switch)
        for budget in self._budgets:
            budget.refresh()
            if budget.row is DEVICE_ROW:
                budget.setVisible(model is not None and model.device != "cpu")
        self._show_trouble()

    def _show_trouble(self) -> None:
        """What the engine said of a budget it could not work with."""
        self._trouble.setText(self._settings.budget_trouble)
        self._trouble.setVisible(bool(self._settings.budget_trouble))
