"""The details of one model on this computer, and its actions."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QWidget

from core.library.messages import ModelFacts, Way
from desktop import theme
from desktop.engine.error_words import error_text
from desktop.i18n import tr
from desktop.models.fits import Fit, Memory, Verdict, memory_of
from desktop.models.library import LibraryModel
from desktop.numbers import (
    family_name,
    format_bytes,
    format_count,
    format_seconds,
    format_speed,
    precision_name,
    short_count,
)
from desktop.widgets.layouts import Frame, column, row
from desktop.widgets.plain import Button, ElidedLabel, Label, named

# Contexts for which the memory is shown, and the model's own.
CONTEXTS = (4_096, 32_768)


class LibraryDetails(Frame):
    def __init__(self) -> None:
        super().__init__("libraryDetails")
        self._name = ElidedLabel(name="libraryName", style="heading")
        self._facts = Label(name="libraryFacts", style="muted", wraps=True, selectable=True)
        self._fit = Label(name="libraryFit", wraps=True)
        self._places = Label(name="libraryPlaces", style="muted small", wraps=True, selectable=True)
        self._memory = MemoryTable()
        self.load = self._button("libraryLoad", tr("Load"))
        self.eject = self._button("libraryEject", tr("Eject"))
        self.rename = self._button("libraryRename", tr("Rename"))
        self.reveal = self._button("libraryReveal", tr("Show in folder"))
        self.relocate = self._button("libraryMove", tr("Move…"))
        self.delete = self._button("libraryDelete", tr("Delete"))
        self.load.setProperty("class", "primary")
        self._buttons = (
            self.load,
            self.eject,
            self.rename,
            self.reveal,
            self.relocate,
            self.delete,
        )
        head = row((self._name, 1), self.eject, self.load)
        parts = (head, self._facts, self._fit, self._memory, self._places, None)
        acts = row(self.rename, self.reveal, self.relocate, self.delete, None)
        column(*parts, acts, of=self, margins=(14, 12, 14, 12), spacing=8)
        self.show_nothing("")

    def show_nothing(self, words: str) -> None:
        self._say(self._facts, words, "muted")
        for each in (self._name, self._fit, self._memory, self._places, *self._buttons):
            each.hide()

    def show_model(
        self,
        model: LibraryModel,
        verdict: Verdict | None,
        available: Memory,
        *,
        loaded: bool,
        coming: bool,
        busy: bool,
        moving: bool,
        moved: bool,
    ) -> None:
        """`coming`: the engine loads this model; `busy`: it can't load another; `moving`: a model
        is being moved; `moved`: it is this one."""
        name, facts = model.name, model.facts
        self._name.set_words(name)
        self._name.show()
        trouble = facts.trouble if facts is not None else None
        said = tr("Its files have not been read yet.")
        if trouble is not None:
            said = error_text(trouble)
        elif facts is not None:
            said = describe(facts)
        self._say(self._facts, said, "error" if trouble is not None else "muted")
        self._fit.setVisible(verdict is not None)
        if verdict is not None:
            style = {Fit.TIGHT: "warning", Fit.TOO_LARGE: "error"}.get(verdict.fit, "")
            self._say(self._fit, f"{verdict.words} {speed(verdict.way)}".strip(), style)
        self._memory.setVisible(verdict is not None)
        if facts is not None and verdict is not None:
            self._memory.show_facts(facts, available)
        self._places.setText("\n".join(_place(each.program, each.path) for each in model.places))
        self._places.show()
        self._show_buttons(name, loaded, busy)
        self.load.setEnabled(trouble is None and not loaded and not coming and not moved)
        for each in (self.relocate, self.delete):
            each.setEnabled(not loaded and not coming and not moving)

    def _show_buttons(self, name: str, loaded: bool, busy: bool) -> None:
        for button in self._buttons:
            button.setAccessibleName(f"{button.text()}: {name}")
            button.show()
        self.load.setVisible(not loaded)
        self.eject.setVisible(loaded)
        self.eject.setEnabled(not busy)

    def _say(self, label: Label, words: str, style: str) -> None:
        label.setText(words)
        theme.set_class(label, style)
        label.show()

    def _button(self, name: str, words: str) -> Button:
        button = Button(words, name=name)
        button.setAutoDefault(False)
        return button


class MemoryTable(QWidget):
    """A row for each precision, a column for each context."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "libraryMemory", tr("Memory by precision and context"))
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 4, 0, 4)
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(3)
        self._cells: dict[tuple[int, int], Label] = {}

    def show_facts(self, facts: ModelFacts, available: Memory) -> None:
        for cell in self._cells.values():
            cell.hide()
        contexts = [each for each in CONTEXTS if each < facts.context]
        if facts.context:
            contexts.append(facts.context)
        heads = [tr("Precision"), *map(_tokens, contexts), tr("Read per token")]
        heads += [tr("Speed"), tr("1,000 tokens read")]
        for place, words in enumerate(heads):
            # In two lines, so that the table is narrow.
            self._put(0, place, "\n".join(words.rsplit(" ", 1)), "muted small")
        ways = sorted(facts.ways, key=lambda each: -each.num_bytes)
        for line, way in enumerate(ways, 1):
            self._put(line, 0, precision_name(way.precision), "small")
            for place, context in enumerate(contexts, 1):
                self._put_memory(line, place, way, context, available)
            read = format_bytes(way.token_bytes) if way.token_bytes else ""
            step = format_speed(1 / way.step_s) if way.step_s else ""
            prompt = format_seconds(way.prompt_s) if way.prompt_s else ""
            for place, words in enumerate((read, step, prompt), len(contexts) + 1):
                self._put(line, place, words, "muted small")

    def _put_memory(self, line: int, place: int, way: Way, context: int, free: Memory) -> None:
        needed = memory_of(way, context)
        fits = needed + free.kept <= free.free
        cell = self._put(line, place, format_bytes(needed), "small" if fits else "error small")
        spoken = tr("{precision} with {tokens}: {needed}, {fit}").format(
            precision=precision_name(way.precision),
            tokens=_tokens(context),
            needed=format_bytes(needed),
            fit=tr("fits") if fits else tr("more than is free"),
        )
        cell.setAccessibleName(spoken)

    def _put(self, line: int, place: int, words: str, style: str) -> Label:
        cell = self._cells.get((line, place))
        if cell is None:
            cell = self._cells[line, place] = Label(parent=self)
            side = Qt.AlignmentFlag.AlignRight if place else Qt.AlignmentFlag.AlignLeft
            side |= Qt.AlignmentFlag.AlignBottom
            cell.setAlignment(side)
            self._grid.addWidget(cell, line, place, side)
        cell.setText(words)
        cell.setAccessibleName("")
        theme.set_class(cell, style)
        cell.show()
        return cell


def _tokens(context: int) -> str:
    return tr("{tokens} tokens").format(tokens=format_count(context))


def _place(program: str, path: object) -> str:
    return f"{program}: {path}" if program else str(path)


def describe(facts: ModelFacts) -> str:
    parts = [
        family_name(facts.family),
        tr("{count} parameters").format(count=short_count(facts.parameters)),
        tr("published in {precision}").format(precision=facts.published or tr("unknown precision")),
        tr("reads pictures") if facts.vision else tr("reads text only"),
        tr("can think first") if facts.thinking else "",
        tr("context up to {tokens} tokens").format(tokens=format_count(facts.context)),
        tr("{size} on disk").format(size=format_bytes(facts.size)),
        tr("licence: {name}").format(name=facts.licence or tr("not named")),
    ]
    said = ", ".join(part for part in parts if part) + "."
    return " ".join((said, tr("Audio input isn't supported."))) if facts.audio else said


def speed(way: Way | None) -> str:
    if way is None or not way.step_s:
        return ""
    words = tr("About {speed}, and {seconds} for 1,000 tokens of a prompt, as measured here.")
    return words.format(speed=format_speed(1 / way.step_s), seconds=format_seconds(way.prompt_s))
