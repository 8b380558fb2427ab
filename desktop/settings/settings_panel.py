"""Model & settings: all settings in parts that fold, with a search over all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QApplication,
    QWidget,
)

from desktop import theme
from desktop.engine.engine_status import EngineStatus
from desktop.i18n import tr
from desktop.number_format import number
from desktop.numbers import format_count
from desktop.settings.model_box import ModelBox
from desktop.settings.setting_editor import BudgetEditor, Editor, SettingEditor
from desktop.settings.setting_rows import Part, SettingRow, parts
from desktop.settings.settings import SettingsController
from desktop.widgets.layouts import ScrollArea, column
from desktop.widgets.layouts import row as row_of
from desktop.widgets.plain import Button, Label
from desktop.widgets.search_field import SearchField

# A widget, and the words by which a search finds it.
Found: TypeAlias = tuple[QWidget, str]


class SettingsPanel(ScrollArea):
    # Defaults are in force again: a message, and a function that undoes it.
    restored = Signal(str, object)

    def __init__(self, settings: SettingsController) -> None:
        super().__init__("settingsPanel")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._settings = settings
        self.model_box = ModelBox(settings)
        self.instructions = Button(
            tr("Instructions for this chat"),
            name="openInstructions",
            tip=tr("The system prompt. Each chat has its own."),
        )
        self._editors: dict[str, Editor] = {}
        self._trouble = Label(name="budgetTrouble", style="error small", wraps=True)
        self._search = SearchField("settingsSearch", tr("Search settings"))
        self._nothing = Label(
            tr("No setting matches."), name="settingsNotFound", style="muted small"
        )
        self._restore_all = Button(tr("Restore all defaults"), name="restoreAll", style="flat")
        self.parts = self._make_parts()
        self._build()
        self._find()
        settings.changed.connect(self._show_trouble)
        settings.engine.changed.connect(self._on_engine)
        self._on_engine()

    def _make_parts(self) -> dict[str, SettingsPart]:
        above: dict[str, Found] = {
            "thinking": (self.instructions, tr("system prompt persona role instructions")),
            "cache.host_bytes": (self._trouble, ""),
        }
        made: dict[str, SettingsPart] = {}
        for part in parts():
            found: list[Found] = []
            if part.name == "Model":
                found.append((self.model_box, f"{part.title} {tr('Model folder')}"))
            for row in part.rows:
                if row.key in above:
                    found.append(above[row.key])
                self._editors[row.key] = self._editor(row)
                found.append((self._editors[row.key], row.searched))
                if row.key == "model.weights_bytes":
                    found.append((QuantisedWeights(self._settings), row.searched))
            made[part.name] = self._part(part, found)
        # The model's settings take effect with its button Load.
        made["Model"].always = self.model_box
        return made

    def _editor(self, row: SettingRow) -> Editor:
        if row.key.endswith("_bytes"):
            return BudgetEditor(row, self._settings)
        own: Callable[[], str] = partial(self._models_own, row)
        return SettingEditor(row, self._settings, own)

    def _part(self, part: Part, settings: Sequence[Found]) -> SettingsPart:
        made = SettingsPart(part, settings, part.name not in self._settings.settings.window.folded)
        made.folded.connect(partial(self._settings.fold, part.name))
        made.restore.clicked.connect(lambda: self._restore(part.title, part.rows))
        return made

    def _build(self) -> None:
        self._search.textChanged.connect(self._find)
        theme.signals().changed.connect(self._stay)
        self._restore_all.clicked.connect(
            lambda: self._restore("", [row for part in parts() for row in part.rows])
        )
        self._all_note = Label(
            tr("The model folder and your chats stay as they are."),
            style="muted small",
            wraps=True,
        )
        content = QWidget()
        shown = (self._search, *self.parts.values(), self._nothing, self._restore_all)
        column(*shown, self._all_note, None, of=content, margins=(14, 12, 14, 12), spacing=14)
        self.setWidget(content)

    def show_model(self) -> None:
        self._search.clear()
        self.parts["Model"].unfold()
        self.verticalScrollBar().setValue(0)

    def _stay(self) -> None:
        """Keep the focused control in view when the text size changes."""
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
        said = tr("{}: the defaults are restored.").format(part)
        self.restored.emit(said if part else tr("All defaults are restored."), undo)

    def _models_own(self, row: SettingRow) -> str:
        model = self._settings.engine.model
        section, _, name = row.key.partition(".")
        if name == "seed":
            return tr("A new one each time")
        if name == "max_tokens":
            return tr("As long as the context allows")
        if model is None:
            return ""
        if row.key == "model.context_length":
            return format_count(model.context_length)
        own = getattr(model.sampling, name, None) if section == "sampling" else None
        return "" if own is None else tr("Model default: {}").format(number(own))

    def _on_engine(self) -> None:
        model = self._settings.engine.model
        for editor in self._editors.values():
            editor.refresh()
        self._editors["thinking"].setEnabled(model is None or model.thinking_switch)
        self._show_trouble()

    def _show_trouble(self) -> None:
        model = self._settings.engine.model
        self._trouble.setText(self._settings.budget_trouble)
        absent: set[QWidget] = set()
        if not self._settings.budget_trouble:
            absent.add(self._trouble)
        if model is None or model.device == "cpu":
            absent.add(self._editors["cache.device_bytes"])
        if absent != self.parts["Memory"].absent:
            self.parts["Memory"].absent = absent
            self._find()


class SettingsPart(QWidget):
    folded = Signal(bool)

    def __init__(self, part: Part, settings: Sequence[Found], is_open: bool) -> None:
        super().__init__()
        self._settings = settings
        # Hidden whatever is searched for.
        self.absent: set[QWidget] = set()
        # Shown if anything of the part is found.
        self.always: QWidget | None = None
        self._open = is_open
        self._head = Button(part.title, name=f"part{part.name}", style="head")
        self._head.setCheckable(True)
        self._head.clicked.connect(self._on_head)
        self._note = Label(part.note, style="muted small", wraps=True)
        self.restore = Button(
            tr("Restore defaults"),
            name=f"restore{part.name}",
            style="flat",
            spoken=tr("Restore the defaults of {}").format(part.title),
        )
        widgets = [widget for widget, _ in settings]
        column(self._head, self._note, *widgets, self.restore, of=self, spacing=12)
        theme.signals().changed.connect(self._draw)

    def show_found(self, text: str) -> bool:
        """'' shows all unless folded. Returns if there are any."""
        shown = bool(text) or self._open
        wanted = text.casefold().split()
        # The part's title finds all of it.
        titled = all(word in self._head.text().casefold() for word in wanted)
        fits = {
            widget: (titled or all(word in said.casefold() for word in wanted))
            and widget not in self.absent
            for widget, said in self._settings
        }
        found = any(fits.values())
        for widget, own in fits.items():
            widget.setVisible(shown and (own or (found and widget is self.always)))
        self._head.setChecked(shown)
        self._draw()
        for label in (self._note, self.restore):
            label.setVisible(shown and not text)
        self.setVisible(found)
        return found

    def unfold(self) -> None:
        if not self._open:
            self._on_head()

    def _on_head(self) -> None:
        self._open = not self._open
        self.show_found("")
        self.folded.emit(not self._open)

    def _draw(self) -> None:
        name = "chevron_down" if self._head.isChecked() else "chevron_right"
        self._head.setIcon(theme.icon(name))


class QuantisedWeights(QWidget):
    """Deletes without a question: a load quantises them again."""

    def __init__(self, settings: SettingsController) -> None:
        super().__init__()
        self._delete = Button(
            tr("Delete saved weights"),
            name="deleteKeptWeights",
            spoken=tr("Delete the quantised weights saved on disk"),
            tip=tr("Each model then takes longer to load the next time."),
        )
        self._delete.clicked.connect(settings.delete_matrices)
        row_of(self._delete, None, of=self)
        settings.engine.changed.connect(self._show_status)
        self._show_status(settings.engine.status)

    def _show_status(self, status: EngineStatus) -> None:
        something = status.model is None or status.model.load.kept_bytes > 0
        self._delete.setEnabled(status.runs and something)
