"""One byte budget to look at and change: automatic, a size, or (on disk) nothing at all."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QVBoxLayout, QWidget

from desktop import theme
from desktop.settings.budgets import automatic, too_small
from desktop.settings.setting_costs import setting_cost
from desktop.settings.setting_editor import CONTROL_HEIGHT, control_name
from desktop.settings.setting_rows import DISK_ROW, WEIGHTS_ROW, SettingRow
from desktop.settings.settings import SettingsController
from desktop.settings.size_box import SizeBox
from desktop.widgets.plain import Label
from desktop.words import settings as words

Way = Literal["automatic", "size", "nothing"]
# Offered when nothing is known of the model yet.
FIRST_SIZE = 4 * 1000**3


class BudgetEditor(QWidget):
    """Edits the budget `row`. What is too small stays in the field and is not taken."""

    def __init__(self, row: SettingRow, settings: SettingsController) -> None:
        super().__init__()
        self.row = row
        self._settings = settings
        self._shown: object = ...
        self._ways: list[Way] = ["automatic", "size"]
        if row in (DISK_ROW, WEIGHTS_ROW):
            self._ways.append("nothing")
        self.way = QComboBox()
        self.size_box = SizeBox()
        self._title = Label(row.title)
        self._title.setBuddy(self.way)
        self._words = Label(style="muted small", wraps=True)
        self._cost = Label(name=f"cost{control_name(row.key)}", style="small", wraps=True)
        self._prepare_controls()
        self._lay_out()
        self.refresh()
        settings.changed.connect(self.refresh)

    @property
    def searched(self) -> str:
        """The words by which it is found."""
        return f"{words.budget_spoken(self.row.title)} {self.row.description}"

    def refresh(self) -> None:
        """Show the value in force, and what it costs with the loaded model."""
        value = self.row.value_in(self._settings.settings)
        self.way.blockSignals(True)
        self.way.setItemText(0, self._automatic_words())
        if value != self._shown:
            self._shown = value
            self._show_value(value)
        self.way.blockSignals(False)
        self._say_cost()

    def _show_value(self, value: int | None) -> None:
        way: Way = "automatic" if value is None else "size"
        if value == 0 and "nothing" in self._ways:
            way = "nothing"
        self.way.setCurrentIndex(self._ways.index(way))
        self.size_box.setVisible(way == "size")
        if value is not None:
            self.size_box.show_size(value)
        self._say("")

    def _prepare_controls(self) -> None:
        name = control_name(self.row.key)
        self.way.addItems(["", words.OWN_SIZE, words.NOTHING_ON_DISK][: len(self._ways)])
        self.way.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.way.setMinimumContentsLength(8)
        self.way.setObjectName(f"setting{name}")
        self.way.setAccessibleName(words.budget_spoken(self.row.title))
        self.way.currentIndexChanged.connect(lambda at: self._take_way(self._ways[at]))
        self.size_box.setObjectName(f"size{name}")
        self.size_box.setAccessibleName(words.size_spoken(self.row.title))
        self.size_box.size_asked.connect(self._put)
        self.size_box.not_understood.connect(lambda text: self._refuse(words.not_a_size(text)))
        self.size_box.unclear.connect(lambda text: self._refuse(words.unclear_number(text)))
        for control in (self.way, self.size_box):
            control.setMinimumHeight(CONTROL_HEIGHT)
            control.setAccessibleDescription(self.row.description)
            control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            control.installEventFilter(self)

    def _lay_out(self) -> None:
        controls = QHBoxLayout()
        controls.addWidget(self.way, 3)
        controls.addWidget(self.size_box, 2)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addWidget(self._title)
        layout.addLayout(controls)
        layout.addWidget(self._words)
        layout.addWidget(self._cost)

    def _automatic_words(self) -> str:
        model = self._settings.engine.model
        if model is None:
            return words.AUTOMATIC
        return words.automatic_words(automatic(self.row.key, model))

    def _take_way(self, way: Way) -> None:
        if way == "size":
            self.size_box.show_size(self._first_size())
            self.size_box.show()
        else:
            self.size_box.hide()
        self._put({"automatic": None, "nothing": 0, "size": self.size_box.size_shown}[way])

    def _first_size(self) -> int:
        """Where setting a size begins: what automatic gives, in a round number that is enough."""
        model = self._settings.engine.model
        size = automatic(self.row.key, model) if model else 0
        for unit in (10**9, 10**8, 10**7, 10**6):
            whole = size // unit * unit
            if whole and not too_small(self.row.key, whole, model):
                return whole
        return size or FIRST_SIZE

    def _put(self, value: int | None) -> None:
        trouble = self._settings.set_value(self.row, value)
        # What was refused stays in the field, beside the words that say why.
        self._say(trouble)
        self._say_cost()

    def _refuse(self, said: str) -> None:
        # Not what was refused before: what is in force.
        value = self.row.value_in(self._settings.settings)
        self.size_box.show_size(value or self.size_box.size_shown)
        self._say(said)

    def _say(self, trouble: str) -> None:
        self._words.setText(trouble or self.row.description)
        self._restyle(self._words, "error small" if trouble else "muted small")

    def _say_cost(self) -> None:
        model, value = self._settings.engine.model, self.row.value_in(self._settings.settings)
        bad = bool(too_small(self.row.key, value, model))
        self._cost.setText(setting_cost(self.row.key, self._settings.settings.cache, model))
        self._restyle(self._cost, "error small" if bad else "small")

    def _restyle(self, label: Label, style_class: str) -> None:
        if label.property("class") != style_class:
            label.setProperty("class", style_class)
            theme.restyle(label)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # The wheel scrolls the panel, and changes nothing that happens to lie under the pointer.
        if event.type() == QEvent.Type.Wheel:
            event.ignore()
            return True
        return super().eventFilter(watched, event)
