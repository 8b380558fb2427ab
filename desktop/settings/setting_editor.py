"""One setting to look at and change: its title, a control that fits its kind, what it means."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from desktop import theme
from desktop.number_format import (
    NotANumberError,
    UnclearNumberError,
    number,
    parse_number,
    whole_number,
)
from desktop.settings.number_box import NumberBox
from desktop.settings.setting_costs import setting_cost
from desktop.settings.setting_rows import SettingRow
from desktop.settings.settings import SettingsController
from desktop.settings.switch import Switch
from desktop.widgets.plain import Label
from desktop.words import settings as words

# Spin boxes would be lower than the fields beside them.
CONTROL_HEIGHT = 30
# A field of one line lays out all of it at every key.
LONGEST_NUMBER = 40
Control = QComboBox | QLineEdit | NumberBox | Switch


class SettingEditor(QWidget):
    """Edits the setting `row`; `own` gives the model's own value in words, for an empty field.

    What is not taken stays in the field, beside words that say why.
    """

    def __init__(
        self, row: SettingRow, settings: SettingsController, own: Callable[[], str] | None = None
    ) -> None:
        super().__init__()
        self.row = row
        self._settings = settings
        self._own = own
        self._shown: object = ...
        self.control = self._make_control()
        self._title = Label(row.title)
        self._title.setBuddy(self.control)
        self._words = Label(row.description, style="muted small", wraps=True)
        self._cost: Label | None = None
        if setting_cost(row.key, settings.settings.cache, settings.engine.model):
            self._cost = Label(name=f"cost{control_name(row.key)}", style="small", wraps=True)
        self._lay_out()
        self.refresh()
        settings.changed.connect(self.refresh)

    @property
    def searched(self) -> str:
        """The words by which it is found."""
        return f"{self.row.title} {self.row.description}"

    def refresh(self) -> None:
        """Show the value in force."""
        value = self.row.value_in(self._settings.settings)
        if value != self._shown:
            self._shown = value
            self._show(value)
        if isinstance(self.control, QLineEdit):
            own = self._own() if self._own else ""
            self.control.setPlaceholderText(own or words.MODELS_OWN)
        if self._cost is not None:
            cache, model = self._settings.settings.cache, self._settings.engine.model
            self._cost.setText(setting_cost(self.row.key, cache, model))

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
        self.control.blockSignals(False)
        self._say("")

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        if isinstance(self.control, Switch):
            line = QHBoxLayout()
            line.addWidget(self._title, 1)
            line.addWidget(self.control)
            layout.addLayout(line)
        else:
            layout.addWidget(self._title)
            layout.addWidget(self.control)
        layout.addWidget(self._words)
        if self._cost is not None:
            layout.addWidget(self._cost)

    def _make_control(self) -> Control:
        control: Control
        match self.row.kind:
            case "choice":
                control = self._choices()
            case "switch":
                control = Switch()
                control.toggled.connect(self._put)
            case _:
                control = self._line() if self.row.optional else self._integer()
        if not isinstance(control, Switch):
            control.setMinimumHeight(CONTROL_HEIGHT)
        control.setObjectName(f"setting{control_name(self.row.key)}")
        control.setAccessibleName(self.row.title)
        control.setAccessibleDescription(self.row.description)
        control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        control.installEventFilter(self)
        return control

    def _choices(self) -> Control:
        box = QComboBox()
        for title, value in self.row.choices:
            box.addItem(title, value)
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.setMinimumContentsLength(8)
        box.currentIndexChanged.connect(lambda at: self._put(self.row.choices[at][1]))
        return box

    def _integer(self) -> Control:
        box = NumberBox(int(self.row.minimum), int(self.row.maximum), self.row.step)
        box.valueChanged.connect(self._put)
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
        """Say why what was typed is no number."""
        said = words.not_a_number(self.row.title, text, self.row.bounds_in_words())
        self._say(words.unclear_number(text) if unclear else said, bad=True)

    def _put(self, value: object) -> None:
        trouble = self._settings.set_value(self.row, value)
        if trouble:
            self._say(trouble, bad=True)
            return
        taken = self.row.value_in(self._settings.settings)
        # A number that was rounded, or refused before, is still to be shown as it is in force.
        self._shown = taken
        self._show(taken)
        if taken != value:
            self._say(words.rounded_words(taken, self.row.step))

    def _say(self, said: str, bad: bool = False) -> None:
        """Say something of the value; '' says what the setting is again."""
        self._words.setText(said or self.row.description)
        style = "error small" if bad else "small" if said else "muted small"
        if self._words.property("class") != style:
            self._words.setProperty("class", style)
            theme.restyle(self._words)

    def _choice_of(self, value: object) -> int:
        values = [choice for _, choice in self.row.choices]
        return values.index(value) if value in values else 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # The wheel scrolls the panel, and changes nothing that happens to lie under the pointer.
        if event.type() == QEvent.Type.Wheel:
            event.ignore()
            return True
        return super().eventFilter(watched, event)


def _written(value: float | None) -> str:
    """A value as it stands in its field: '' for the model's own, and a seed without groups."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else number(value)


def control_name(key: str) -> str:
    """The part of an objectName that says which setting: CacheCount for 'cache.count'."""
    return "".join(part.capitalize() for part in key.replace(".", "_").split("_"))
