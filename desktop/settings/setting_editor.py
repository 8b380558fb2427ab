"""Edits one setting; a refused value stays in the control, with the reason below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from PySide6.QtCore import QEvent, QObject, Qt, SignalInstance
from PySide6.QtWidgets import QComboBox, QLineEdit, QWidget

from desktop import theme
from desktop.engine.engine import EngineController
from desktop.i18n import tr
from desktop.number_format import (
    NotANumberError,
    UnclearNumberError,
    number,
    parse_number,
    whole_number,
)
from desktop.numbers import format_bytes, format_count
from desktop.settings.budgets import ON_DISK, automatic, setting_cost, too_small
from desktop.settings.controls import NumberBox, Switch, TextLines
from desktop.settings.setting_rows import SettingRow
from desktop.settings.settings import SettingsController
from desktop.store.settings import AppSettings
from desktop.widgets.layouts import Part, column
from desktop.widgets.layouts import row as row_of
from desktop.widgets.plain import Label, fit_box, named

# Spin boxes would be lower than the other fields.
CONTROL_HEIGHT = 30
# A one-line field lays out its whole text at every key press.
LONGEST_NUMBER = 40
Control = QComboBox | QLineEdit | NumberBox | Switch | TextLines
BudgetChoice = Literal["automatic", "size", "nothing"]
# Offered if no model has been loaded yet.
FIRST_SIZE = 4 * 1000**3


class Values(Protocol):
    engine: EngineController

    @property
    def changed(self) -> SignalInstance: ...

    @property
    def settings(self) -> AppSettings: ...

    def set_value(self, key: str, value: object) -> str: ...


class Editor(QWidget):
    def __init__(self, row: SettingRow, settings: Values) -> None:
        super().__init__()
        self.row = row
        self._settings = settings
        self._shown: object = ...
        self._title = Label(row.title)
        self._words = Label(row.description, style="muted small", wraps=True)
        self._cost: Label | None = None
        if self._cost_in_words():
            self._cost = Label(name=f"cost{control_name(row.key)}", style="small", wraps=True)
        settings.changed.connect(self.refresh)

    def refresh(self) -> None:
        raise NotImplementedError

    def _cost_in_words(self) -> str:
        cache, model = self._settings.settings.cache, self._settings.engine.model
        return setting_cost(self.row.key, cache, model)

    def _lay_out(self, *parts: Part) -> None:
        below = [self._words] if self._cost is None else [self._words, self._cost]
        column(*parts, *below, of=self, spacing=3)

    def _show_cost(self) -> None:
        if self._cost is not None:
            value = self.row.value_in(self._settings.settings)
            bad = bool(too_small(self.row.key, value, self._settings.engine.model))
            self._cost.setText(self._cost_in_words())
            theme.set_class(self._cost, "error small" if bad else "small")

    def _prepare(self, control: QWidget) -> None:
        control.setMinimumHeight(CONTROL_HEIGHT)
        control.setAccessibleDescription(self.row.description)
        control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        control.installEventFilter(self)

    def _say(self, said: str, bad: bool = False) -> None:
        """'' shows the description again."""
        self._words.setText(said or self.row.description)
        theme.set_class(self._words, "error small" if bad else "small" if said else "muted small")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # The wheel scrolls the panel and changes no control under the pointer.
        if event.type() == QEvent.Type.Wheel:
            event.ignore()
            return True
        return super().eventFilter(watched, event)


def unclear_number(given: str) -> str:
    return tr(
        "'{given}' could be read in more than one way. Write numbers like {example}. The setting "
        "was not changed."
    ).format(given=given, example=number(1234.5))


def control_name(key: str) -> str:
    """CacheCount for 'cache.count'"""
    return "".join(part.capitalize() for part in key.replace(".", "_").split("_"))


class SettingEditor(Editor):
    """`own` is the model's own value, shown in an empty field."""

    def __init__(
        self,
        row: SettingRow,
        settings: Values,
        own: Callable[[], str] | None = None,
        prefix: str = "setting",
    ) -> None:
        super().__init__(row, settings)
        self._own = own
        self._prefix = prefix
        self.control = self._make_control()
        self._title.setBuddy(self.control)
        if isinstance(self.control, Switch):
            self._lay_out(row_of((self._title, 1), self.control))
        else:
            self._lay_out(self._title, self.control)
        self.refresh()

    def refresh(self) -> None:
        value = self.row.value_in(self._settings.settings)
        if value != self._shown:
            self._shown = value
            self._show(value)
        if isinstance(self.control, QLineEdit):
            own = self._own() if self._own else ""
            self.control.setPlaceholderText(own or tr("Model default"))
        self._show_cost()

    def _show(self, value: object) -> None:
        self.control.blockSignals(True)
        match self.control:
            case QComboBox():
                self.control.setCurrentIndex(self._choice_of(value))
            case Switch():
                self.control.setChecked(value is True)
            case NumberBox():
                assert isinstance(value, int)
                self.control.setValue(value)
            case QLineEdit():
                if not self.control.hasFocus() or not self.control.isModified():
                    assert value is None or isinstance(value, int | float)
                    self.control.setText(_written(value))
            case TextLines():
                if not self.control.hasFocus():
                    self.control.show_lines(value)
        self.control.blockSignals(False)
        self._say("")

    def mark_own(self, own: bool) -> None:
        theme.set_class(self._title, "heading" if own else "")

    def _make_control(self) -> Control:
        control: Control
        match self.row.kind:
            case "choice":
                control = self._choices()
            case "switch":
                control = Switch()
                control.toggled.connect(self._put)
            case "lines":
                control = TextLines()
                control.changed.connect(lambda: self._put(control.lines()))
            case _:
                control = self._line() if self.row.optional else self._integer()
        self._prepare(control)
        if isinstance(control, Switch):
            control.setMinimumHeight(0)
        named(control, f"{self._prefix}{control_name(self.row.key)}", self.row.title)
        return control

    def _choices(self) -> Control:
        box = fit_box(QComboBox(), 8)
        for title, value in self.row.choices:
            box.addItem(title, value)
        box.currentIndexChanged.connect(lambda at: self._put(self.row.choices[at][1]))
        return box

    def _integer(self) -> Control:
        box = NumberBox.counting(int(self.row.minimum), int(self.row.maximum), self.row.step)
        box.valueChanged.connect(lambda value: self._put(int(value)))
        box.not_taken.connect(self._refuse)
        return box

    def _line(self) -> Control:
        line = QLineEdit()
        line.setMaxLength(LONGEST_NUMBER)
        line.editingFinished.connect(lambda: self._put_text(line))
        return line

    def _put_text(self, line: QLineEdit) -> None:
        text = line.text().strip()
        line.setModified(False)
        if not text:
            self._put(None)
            return
        try:
            value = parse_number(text)
            if self.row.kind == "integer":
                self._put(whole_number(value))
            else:
                self._put(float(value))
        except NotANumberError as error:
            self._refuse(text, unclear=isinstance(error, UnclearNumberError))

    def _refuse(self, text: str, unclear: bool) -> None:
        said = tr(
            "'{given}' is not a number: {title} takes {bounds}. The setting was not changed."
        ).format(given=text, title=self.row.title, bounds=self.row.bounds_in_words())
        self._say(unclear_number(text) if unclear else said, bad=True)

    def _put(self, value: object) -> None:
        trouble = self._settings.set_value(self.row.key, value)
        if trouble:
            self._say(trouble, bad=True)
            return
        taken = self.row.value_in(self._settings.settings)
        # The control may show the number before rounding, or one that was refused.
        self._shown = taken
        self._show(taken)
        if taken != value:
            rounded = tr("Rounded up to {}, a multiple of {}.")
            self._say(rounded.format(format_count(taken), format_count(self.row.step)))

    def _choice_of(self, value: object) -> int:
        values = [choice for _, choice in self.row.choices]
        return values.index(value) if value in values else 0


def _written(value: float | None) -> str:
    """'' for the model's own; a seed has no separators."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else number(value)


class BudgetEditor(Editor):
    def __init__(self, row: SettingRow, settings: SettingsController) -> None:
        super().__init__(row, settings)
        self._choices: list[BudgetChoice] = ["automatic", "size"]
        if row.key in ON_DISK:
            self._choices.append("nothing")
        self.choice = fit_box(QComboBox(), 8)
        self.size_box = NumberBox.of_size()
        self._title.setBuddy(self.choice)
        self._prepare_controls()
        self._lay_out(self._title, row_of((self.choice, 3), (self.size_box, 2)))
        self.refresh()

    def refresh(self) -> None:
        value = self.row.value_in(self._settings.settings)
        self.choice.blockSignals(True)
        self.choice.setItemText(0, self._automatic_in_words())
        if value != self._shown:
            self._shown = value
            self._show_value(value)
        self.choice.blockSignals(False)
        self._show_cost()

    def _show_value(self, value: int | None) -> None:
        way: BudgetChoice = "automatic" if value is None else "size"
        if value == 0 and "nothing" in self._choices:
            way = "nothing"
        self.choice.setCurrentIndex(self._choices.index(way))
        self.size_box.setVisible(way == "size")
        if value is not None:
            self.size_box.show_number(value)
        self._say("")

    def _prepare_controls(self) -> None:
        name = control_name(self.row.key)
        self.choice.addItems(["", tr("Custom"), tr("Save nothing on disk")][: len(self._choices)])
        named(self.choice, f"setting{name}", tr("{} budget").format(self.row.title))
        self.choice.currentIndexChanged.connect(lambda at: self._choose(self._choices[at]))
        named(self.size_box, f"size{name}", tr("{} budget in GB or MB").format(self.row.title))
        self.size_box.valueChanged.connect(lambda size: self._put(int(size)))
        self.size_box.not_taken.connect(self._refuse)
        for control in (self.choice, self.size_box):
            self._prepare(control)

    def _automatic_in_words(self) -> str:
        model = self._settings.engine.model
        if model is None:
            return tr("Automatic")
        return tr("Automatic: {}").format(format_bytes(automatic(self.row.key, model)))

    def _choose(self, way: BudgetChoice) -> None:
        if way == "size":
            self.size_box.show_number(self._first_size())
            self.size_box.show()
        else:
            self.size_box.hide()
        self._put({"automatic": None, "nothing": 0, "size": self.size_box.number()}[way])

    def _first_size(self) -> int:
        """The automatic one, rounded to a number that is large enough."""
        model = self._settings.engine.model
        size = automatic(self.row.key, model) if model else 0
        for unit in (10**9, 10**8, 10**7, 10**6):
            rounded = size // unit * unit
            if rounded and not too_small(self.row.key, rounded, model):
                return rounded
        return size or FIRST_SIZE

    def _put(self, value: int | None) -> None:
        trouble = self._settings.set_value(self.row.key, value)
        self._say(trouble, bad=bool(trouble))
        self._show_cost()

    def _refuse(self, given: str, unclear: bool) -> None:
        value = self.row.value_in(self._settings.settings)
        self.size_box.show_number(value or self.size_box.number())
        said = tr("'{given}' is not a size. Write it like {example} GB or 700 MB.")
        said = said.format(given=given, example=number(1.5))
        self._say(unclear_number(given) if unclear else said, bad=True)
