"""A document's text, and the choice of the parts to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QListView, QSplitter, QWidget

from desktop import theme
from desktop.documents.parts import (
    BYTES_PER_TOKEN,
    best_that_fit,
    estimated_tokens,
    matches,
    numbered,
)
from desktop.i18n import tr
from desktop.numbers import BETWEEN, count_of, format_count
from desktop.search.folding import terms_of
from desktop.store.tables.fields import storable
from desktop.store.tables.records import Document
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import column, row
from desktop.widgets.long_text import LongText
from desktop.widgets.pacing import pace
from desktop.widgets.plain import Button, Label, named
from desktop.widgets.plain_text import shortened
from desktop.widgets.search_field import SearchField
from desktop.widgets.two_lines import AnyIndex, ListModel

WIDTH, HEIGHT, LIST_WIDTH = 860, 600, 270
TYPED_MS = 120
# Characters searched in one step: a few milliseconds.
STEP_CHARACTERS = 20_000
LONGEST_LABEL = 60

Choose = Callable[[Sequence[int]], None]


class PartList(ListModel[int]):
    def __init__(self, document: Document, choosable: bool) -> None:
        super().__init__()
        self._document, self._choosable = document, choosable
        self.shown = list(range(len(document.parts)))
        self.chosen = set(document.places)
        self.found: dict[int, int] = {}

    def choose(self, places: Sequence[int]) -> None:
        self.chosen = set(places)
        if self.shown:
            self.dataChanged.emit(self.index(0), self.index(len(self.shown) - 1))

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsUserCheckable if self._choosable else flags

    def data_of(self, place: int, role: int) -> Any:
        match role:
            case Qt.ItemDataRole.DisplayRole:
                label = label_of(self._document, place)
                found = self.found.get(place)
                return BETWEEN.join((label, count_of(found, "match"))) if found else label
            case Qt.ItemDataRole.CheckStateRole if self._choosable:
                checked = place in self.chosen
                return Qt.CheckState.Checked if checked else Qt.CheckState.Unchecked
        return None

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.CheckStateRole:
            return False
        self.chosen ^= {self.shown[index.row()]}
        self.dataChanged.emit(index, index)
        return True


class DocumentDialog(Dialog):
    """With `choose` for a draft, whose parts may have `room` tokens."""

    def __init__(
        self,
        document: Document,
        parent: QWidget | None = None,
        choose: Choose | None = None,
        room: int | None = None,
    ) -> None:
        super().__init__(
            "documentDialog", shortened(document.name, LONGEST_LABEL), parent, once=True
        )
        self._document, self._choose, self._room = document, choose, room
        self.parts = PartList(document, choose is not None)
        self._sizes = _sizes(document)
        words = tr("Words, or pages like 3-7, 12")
        self.field = SearchField("documentSearch", words if document.paged else tr("Words"))
        self.list = QListView()
        self.text = LongText()
        self._said = Label(name="documentWords", style="muted small", wraps=True)
        self._later = QTimer(self, singleShot=True, interval=TYPED_MS)
        # Parts that are still to be searched, and the terms.
        self._unsearched: list[int] = []
        self._terms: tuple[str, ...] = ()
        self._build()
        self._connect()
        self.list.setCurrentIndex(self.parts.index(0))
        self._tell()

    def _build(self) -> None:
        named(self.list, "documentParts", tr("Parts of the document"))
        self.list.setModel(self.parts)
        self.list.setUniformItemSizes(True)
        named(self.text, "documentText", tr("The text that the model reads"))
        self.text.setReadOnly(True)
        self.text.setProperty("class", "field")
        sides = QSplitter()
        sides.addWidget(self.list)
        sides.addWidget(self.text)
        sides.setSizes([theme.px(LIST_WIDTH), theme.px(WIDTH - LIST_WIDTH)])
        buttons = self._choosing() if self._choose else []
        words = tr("Cancel") if self._choose else tr("Close")
        close = self.button("documentClose", words, self.close)
        use = self.button("documentUse", tr("Use these"), self._use, "primary")
        if self._choose is None:
            use.hide()
        bottom = row(*buttons, None, close, use, spacing=8)
        parts = (self.field, (sides, 1), self._said, bottom)
        column(*parts, of=self, margins=(16, 14, 16, 14), spacing=10)
        self.fit(WIDTH, HEIGHT)

    def _choosing(self) -> list[Button]:
        parts, places = self.parts, range(len(self._document.parts))
        everything = self.button("documentAll", tr("All"), lambda: parts.choose(places))
        words = tr("Only those found")
        found = self.button("documentFound", words, lambda: parts.choose(parts.shown))
        tip = tr("Choose the parts with the most matches, as many as the context has room for")
        fit = self.button("documentFit", tr("The best that fit"), self._choose_best, tip=tip)
        if self._room is None:
            fit.hide()
        return [everything, found, fit]

    def _connect(self) -> None:
        self.field.textChanged.connect(self._later.start)
        self.field.found.connect(self.list.setFocus)
        self.field.left.connect(self.close)
        self._later.timeout.connect(self.search)
        self.parts.dataChanged.connect(self._tell)
        selection = self.list.selectionModel()
        selection.currentChanged.connect(lambda now, _before: self._show_part(now))

    def search(self) -> None:
        """Show the parts of these numbers, or with these words."""
        self._later.stop()
        query = storable(self.field.text())
        everything = range(len(self._document.parts))
        places = numbered(query, len(everything))
        self._terms = () if places is not None else terms_of(query)
        self.parts.found = {}
        self._unsearched = list(everything) if self._terms else []
        if self._terms:
            self.parts.reset([])
            pace().go_on(self._go_on)
        else:
            self.parts.reset(everything if places is None else places)
            self._shown()

    def _go_on(self) -> bool:
        """Returns whether any parts are left to search."""
        read = 0
        while self._unsearched and read < STEP_CHARACTERS:
            place = self._unsearched.pop(0)
            read += len(self._document.parts[place])
            if count := matches(self._document.parts[place], self._terms):
                self.parts.found[place] = count
        if not self._unsearched and self._terms:
            self.parts.reset(sorted(self.parts.found))
            self._shown()
        return bool(self._unsearched)

    def _shown(self) -> None:
        self.text.setPlaceholderText("" if self.parts.shown else tr("Nothing was found."))
        self.list.setCurrentIndex(self.parts.index(0))
        self._show_part(self.list.currentIndex())
        self._tell()

    def _show_part(self, index: AnyIndex) -> None:
        place = self.parts.at(index)
        self.text.setPlainText("" if place is None else self._document.parts[place])
        if place is not None and self._terms:
            # Selects it, in any case.
            self.text.find(self._terms[0])

    def _choose_best(self) -> None:
        found = self.parts.found or dict.fromkeys(self.parts.shown, 1)
        self.parts.choose(best_that_fit(found, self._sizes, self._room or 0))

    def _tell(self) -> None:
        unit = count_of(len(self._document.parts), "page" if self._document.paged else "section")
        if self._choose is None:
            self._said.setText(unit)
            return
        tokens = sum(self._sizes[place] for place in self.parts.chosen)
        words = tr("Chosen: {chosen} of {unit}, about {tokens} tokens.")
        if self._room is not None:
            words = tr(
                "Chosen: {chosen} of {unit}, about {tokens} tokens. The context has room for "
                "{room}."
            )
        chosen = format_count(len(self.parts.chosen))
        self._said.setText(
            words.format(
                chosen=chosen,
                unit=unit,
                tokens=format_count(tokens),
                room=format_count(max(0, self._room or 0)),
            )
        )
        too_many = self._room is not None and tokens > self._room
        theme.set_class(self._said, "warning small" if too_many else "muted small")

    def _use(self) -> None:
        if self._choose is not None and self.parts.chosen:
            self._choose(sorted(self.parts.chosen))
            self.close()
        else:
            self._said.setText(tr("Choose at least one part."))


def label_of(document: Document, place: int) -> str:
    """Page 3, or the first line of a section."""
    if document.paged:
        return tr("Page {number}").format(number=format_count(place + 1))
    beginning = document.parts[place][:400].strip().partition("\n")[0].lstrip("# ")
    numbered_label = tr("Section {number}").format(number=format_count(place + 1))
    return shortened(beginning, LONGEST_LABEL) or numbered_label


def _sizes(document: Document) -> list[int]:
    """About how many tokens each part has, by the counted ones."""
    lengths = [len(part.encode()) for part in document.parts]
    counted = sum(lengths[place] for place in document.places)
    share = estimated_tokens(document) / counted if counted else 1 / BYTES_PER_TOKEN
    return [round(length * share) for length in lengths]
