"""Model & settings: everything the user may set, in parts that fold, with a search over all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QApplication, QFrame, QScrollArea, QVBoxLayout, QWidget

from desktop import theme
from desktop.numbers import format_count
from desktop.settings.budget_editor import BudgetEditor
from desktop.settings.model_box import ModelBox
from desktop.settings.quantised_weights import QuantisedWeights
from desktop.settings.setting_editor import SettingEditor
from desktop.settings.setting_rows import (
    AHEAD_ROWS,
    BUDGET_ROWS,
    CHECKPOINT_ROWS,
    DEVICE_ROW,
    DRAFT_ROW,
    MODEL_ROWS,
    PART_ROWS,
    SAMPLING_ROWS,
    THINKING_ROW,
    WINDOW_ROWS,
    SettingRow,
)
from desktop.settings.settings import SettingsController
from desktop.settings.settings_part import Found, SettingsPart
from desktop.widgets.plain import Button, Label
from desktop.widgets.search_field import SearchField
from desktop.words import settings as words

WEIGHTS_KEY = "model.weights_bytes"


class SettingsPanel(QScrollArea):
    """The settings. Those of the model take effect with Load, the others with the next message.

    Signals:
        restored(str, object): defaults are in force again: words for it, and what undoes it.
        instructions_asked(): the user wants to write instructions for the shown chat.
    """

    restored = Signal(str, object)
    instructions_asked = Signal()

    def __init__(self, settings: SettingsController) -> None:
        super().__init__()
        self.setObjectName("settingsPanel")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._settings = settings
        self.model_box = ModelBox(settings)
        self._instructions = Button(
            words.INSTRUCTIONS,
            name="openInstructions",
            spoken=words.INSTRUCTIONS,
            tip=words.INSTRUCTIONS_NOTE,
        )
        self._instructions.clicked.connect(self.instructions_asked)
        self._editors: list[SettingEditor] = []
        self._budgets = {row: BudgetEditor(row, settings) for row in BUDGET_ROWS}
        self._trouble = Label(name="budgetTrouble", style="error small", wraps=True)
        self._search = SearchField("settingsSearch", words.SEARCH)
        self._nothing = Label(words.NOTHING_FOUND, name="settingsNotFound", style="muted small")
        self._restore_all = Button(
            words.RESTORE_ALL, name="restoreAll", style="flat", spoken=words.RESTORE_ALL
        )
        self.parts = self._make_parts()
        self._build()
        self._find()
        settings.changed.connect(self._show_trouble)
        settings.engine.changed.connect(self._on_engine)
        self._on_engine()

    def _make_parts(self) -> dict[str, SettingsPart]:
        memory = [
            *self._made(CHECKPOINT_ROWS),
            (self._trouble, ""),
            *((budget, _searched(budget)) for budget in self._budgets.values()),
            (
                QuantisedWeights(self._settings),
                f"{words.ROWS[WEIGHTS_KEY][0]} {words.SYNONYMS[WEIGHTS_KEY]}",
            ),
            *self._made(AHEAD_ROWS),
        ]
        box = (self.model_box, f"{words.PARTS['Model'][0]} {words.FOLDER_SPOKEN}")
        model = self._part("Model", [box, *self._made(MODEL_ROWS)])
        # These take effect with its button Load.
        model.always = self.model_box
        return {
            "Model": model,
            "Memory": self._part("Memory", memory),
            "Writing": self._part(
                "Writing",
                [
                    (self._instructions, words.INSTRUCTIONS_SEARCHED),
                    *self._made((THINKING_ROW, *SAMPLING_ROWS, DRAFT_ROW)),
                ],
            ),
            "Appearance": self._part("Appearance", self._made(WINDOW_ROWS)),
        }

    def _part(self, name: str, settings: Sequence[Found]) -> SettingsPart:
        part = SettingsPart(name, settings, name not in self._settings.settings.window.folded)
        part.folded.connect(partial(self._settings.fold, name))
        part.restore_asked.connect(lambda: self._restore(words.PARTS[name][0], PART_ROWS[name]))
        return part

    def _made(self, rows: Sequence[SettingRow]) -> list[Found]:
        made: list[Found] = []
        for row in rows:
            own: Callable[[], str] = partial(self._models_own, row)
            editor = SettingEditor(row, self._settings, own)
            self._editors.append(editor)
            made.append((editor, _searched(editor)))
        return made

    def _build(self) -> None:
        self._search.textChanged.connect(self._find)
        theme.signals().changed.connect(self._stay)
        self._restore_all.clicked.connect(
            lambda: self._restore("", [row for rows in PART_ROWS.values() for row in rows])
        )
        self._all_note = Label(words.RESTORE_ALL_NOTE, style="muted small", wraps=True)
        content = QWidget()
        layout = QVBoxLayout(content)
        layout.setContentsMargins(14, 12, 14, 12)
        layout.setSpacing(14)
        for widget in (
            self._search,
            *self.parts.values(),
            self._nothing,
            self._restore_all,
            self._all_note,
        ):
            layout.addWidget(widget)
        layout.addStretch(1)
        self.setWidget(content)
        # A scroll area fills its widget with the window's colour; here the side's shows through.
        content.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)

    def show_model(self) -> None:
        """Have the model's settings seen, whatever was searched for, folded or scrolled to."""
        self._search.clear()
        self.parts["Model"].unfold()
        self.verticalScrollBar().setValue(0)

    def _stay(self) -> None:
        """In letters of another size, what the user is at stays in view."""
        held = QApplication.focusWidget()
        if held is not None and self.isAncestorOf(held):
            QTimer.singleShot(0, held, lambda: self.ensureWidgetVisible(held))

    def _find(self) -> None:
        text = self._search.text().strip()
        found = [part.show_found(text) for part in self.parts.values()]
        self._nothing.setVisible(not any(found))
        for widget in (self._restore_all, self._all_note):
            widget.setVisible(not text)

    def _restore(self, part: str, rows: Sequence[SettingRow]) -> None:
        undo = self._settings.restore(rows)
        self.restored.emit(words.restored_words(part), undo)

    def _models_own(self, row: SettingRow) -> str:
        """What an empty field stands for with the loaded model."""
        model = self._settings.engine.model
        section, _, name = row.key.partition(".")
        if name == "seed":
            return words.ANY_SEED
        if name == "max_tokens":
            return words.ANY_LENGTH
        if model is None:
            return ""
        if row.key == "model.context_length":
            return format_count(model.context_length)
        own = getattr(model.sampling, name, None) if section == "sampling" else None
        return "" if own is None else words.own_words(own)

    def _on_engine(self) -> None:
        model = self._settings.engine.model
        for editor in self._editors:
            editor.refresh()
            if editor.row is THINKING_ROW:
                editor.setEnabled(model is None or model.thinking_switch)
        for budget in self._budgets.values():
            budget.refresh()
        self._show_trouble()

    def _show_trouble(self) -> None:
        """What the engine said of a budget it could not work with; no graphics memory on a CPU."""
        model = self._settings.engine.model
        self._trouble.setText(self._settings.budget_trouble)
        absent: set[QWidget] = set()
        if not self._settings.budget_trouble:
            absent.add(self._trouble)
        if model is None or model.device == "cpu":
            absent.add(self._budgets[DEVICE_ROW])
        if absent != self.parts["Memory"].absent:
            self.parts["Memory"].absent = absent
            self._find()


def _searched(editor: SettingEditor | BudgetEditor) -> str:
    """The words by which a setting is found."""
    return f"{editor.searched} {words.SYNONYMS.get(editor.row.key, '')}"
