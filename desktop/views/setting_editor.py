"""One setting to look at and change: its title, a control that fits its kind, what it means."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QComboBox, QLineEdit, QSpinBox, QVBoxLayout, QWidget

from desktop import theme
from desktop.controllers.settings import SettingsController
from desktop.item_models.setting_costs import setting_cost
from desktop.item_models.setting_rows import SettingRow
from desktop.views.plain import Label

# Spin boxes would be lower than the fields beside them.
CONTROL_HEIGHT = 30
# A field of one line lays out all of it at every key.
LONGEST_NUMBER = 40
Control = QComboBox | QLineEdit | QSpinBox


class SettingEditor(QWidget):
    """Edits the setting `row`; `own` gives the model's own value in words, for an empty field."""

    def __init__(
        self, row: SettingRow, settings: SettingsController, own: Callable[[], str] | None = None
    ) -> None:
        super().__init__()
        self.row = row
        self._settings = settings
        self._own = own
        self.control = self._make_control()
        self._title = Label(row.title)
        self._title.setBuddy(self.control)
        self._words = Label(row.description, style="muted small", wraps=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        for widget in (self._title, self.control, self._words):
            layout.addWidget(widget)
        self._cost: Label | None = None
        if setting_cost(row.key, settings.settings.cache, settings.engine.model):
            self._cost = Label(name=f"cost{control_name(row.key)}", style="small", wraps=True)
            layout.addWidget(self._cost)
        self.refresh()
        settings.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Show the value in force."""
        value = self.row.value_in(self._settings.settings)
        self.control.blockSignals(True)
        match self.control:
            case QComboBox():
                self.control.setCurrentIndex(self._choice_of(value))
            case QSpinBox():
                self.control.setValue(value)
            case QLineEdit():
                if not self.control.hasFocus() or not self.control.isModified():
                    self.control.setText("" if value is None else f"{value:,}".replace(",", ""))
                own = self._own() if self._own else ""
                self.control.setPlaceholderText(own or "The model's own")
        self.control.blockSignals(False)
        if self._cost is not None:
            cache, model = self._settings.settings.cache, self._settings.engine.model
            self._cost.setText(setting_cost(self.row.key, cache, model))

    def _make_control(self) -> Control:
        if self.row.choices:
            control = self._choices()
        else:
            control = self._line() if self.row.optional else self._integer()
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
        box = QSpinBox()
        # Qt ignores the style sheet's left padding in a spin box.
        box.lineEdit().setTextMargins(7, 0, 0, 0)
        box.setRange(int(self.row.minimum), int(self.row.maximum))
        box.setGroupSeparatorShown(True)
        box.setSingleStep(self.row.step)
        # A number half typed is no wish yet.
        box.setKeyboardTracking(False)
        box.valueChanged.connect(self._put)
        return box

    def _line(self) -> Control:
        line = QLineEdit()
        line.setMaxLength(LONGEST_NUMBER)
        line.editingFinished.connect(lambda: self._put_text(line))
        return line

    def _put_text(self, line: QLineEdit) -> None:
        text = line.text().strip().replace(",", "")
        line.setModified(False)
        try:
            value = None if not text else int(text) if self.row.kind == "integer" else float(text)
        except ValueError:
            self._say(f"{self.row.title} takes {self.row.bounds_in_words()}.")
            return
        self._put(value)

    def _put(self, value: object) -> None:
        self._say(self._settings.set_value(self.row, value))
        # A number rounded to the one in force is no change, and still to be shown.
        if isinstance(self.control, QSpinBox):
            self.refresh()

    def _say(self, trouble: str) -> None:
        self._words.setText(trouble or self.row.description)
        self._words.setProperty("class", "error small" if trouble else "muted small")
        theme.restyle(self._words)

    def _choice_of(self, value: object) -> int:
        values = [choice for _, choice in self.row.choices]
        return values.index(value) if value in values else 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # Scrolling the panel must not change what happens to lie under the pointer.
        if event.type() == QEvent.Type.Wheel and not self.control.hasFocus():
            event.ignore()
            return True
        return super().eventFilter(watched, event)


def control_name(key: str) -> str:
    """The part of an objectName that says which setting: CacheCount for 'cache.count'."""
    return "".join(part.capitalize() for part in key.replace(".", "_").split("_"))
