"""The list of models on this computer."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt, Signal

from desktop.engine.error_words import in_language
from desktop.i18n import tr
from desktop.models.fits import fit_name
from desktop.models.library import LibraryController, LibraryModel
from desktop.numbers import BETWEEN, family_name, format_speed, short_count
from desktop.widgets.plain_text import shortened, tip
from desktop.widgets.two_lines import LONGEST_TITLE, NOTE_ROLE, AnyIndex, ListModel


class LibraryList(ListModel[LibraryModel]):
    # The user typed another name for the model at a path; '' restores the published one.
    rename_asked = Signal(str, str)

    def __init__(self, library: LibraryController) -> None:
        super().__init__()
        self._library = library
        self._searched = ""
        # The memory that the rows are judged by.
        self.available = library.available()
        library.changed.connect(self.refresh)
        self.refresh()

    def search(self, words: str) -> None:
        self._searched = words.strip().casefold()
        self.refresh()

    def refresh(self) -> None:
        self.available = self._library.available()
        found = [each for each in self._library.models if self._searched in _searchable(each)]
        if [each.path for each in found] == [each.path for each in self.shown]:
            # The selection and the place of the view stay.
            self.shown = found
            if found:
                self.dataChanged.emit(self.index(0), self.index(len(found) - 1))
            return
        self.reset(found)

    def row_of(self, path: str) -> int:
        """-1 if it isn't shown."""
        return next((row for row, each in enumerate(self.shown) if each.has(path)), -1)

    def data_of(self, model: LibraryModel, role: int) -> Any:
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole:
                return shortened(model.name, LONGEST_TITLE)
            case Qt.ItemDataRole.AccessibleTextRole:
                return f"{model.name}, {self._note(model)}"
            case Qt.ItemDataRole.ToolTipRole:
                return tip(f"{model.name}\n{model.path}")
            case _:
                return self._note(model) if role == NOTE_ROLE else None

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        name = " ".join(str(value).split())
        model = self.shown[index.row()]
        if name != shortened(model.name, LONGEST_TITLE):
            self.rename_asked.emit(model.path, name)
        return True

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable

    def _note(self, model: LibraryModel) -> str:
        facts = model.facts
        if facts is None:
            return tr("not read yet")
        if facts.trouble is not None:
            return in_language(facts.trouble.title)
        verdict = self._library.verdict(model, self.available)
        assert verdict is not None
        way = verdict.way
        parts = [short_count(facts.parameters), facts.published, fit_name(verdict.fit)]
        if way is not None and way.step_s:
            parts.append(tr("about {speed}").format(speed=format_speed(1 / way.step_s)))
        return BETWEEN.join(part for part in parts if part)


def _searchable(model: LibraryModel) -> str:
    family = family_name(model.facts.family) if model.facts is not None else ""
    return f"{model.name} {family}".casefold()
