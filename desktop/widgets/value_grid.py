"""Names and values in two columns, with tool tips; rows without a value are hidden."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QWidget

from desktop import theme
from desktop.widgets.plain import Label, set_tip

# Aligns grids below one another; pixels at the default text size.
NAME_WIDTH = 112


class Row(NamedTuple):
    name: str
    label: str
    explanation: str


class ValueGrid(QWidget):
    def __init__(self, rows: Sequence[Row], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._values: dict[str, Label] = {}
        self._labels: dict[str, Label] = {}
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setHorizontalSpacing(14)
        self._layout.setVerticalSpacing(6)
        self._layout.setColumnStretch(1, 1)
        for row in rows:
            self._add(row)
        theme.signals().changed.connect(self._line_up)
        self._line_up()

    def show_value(self, name: str, text: str) -> None:
        """'' hides the row."""
        self._values[name].setText(text)
        for each in (self._values[name], self._labels[name]):
            each.setVisible(bool(text))

    def show_values(self, values: Mapping[str, str], greyed: Collection[str] = ()) -> None:
        for name in self._values:
            self.show_value(name, values.get(name, ""))
            for each in (self._values[name], self._labels[name]):
                each.setEnabled(name not in greyed)
        self.setVisible(any(values.get(name) for name in self._values))

    def _line_up(self) -> None:
        self._layout.setColumnMinimumWidth(0, theme.px(NAME_WIDTH))

    def _add(self, row: Row) -> None:
        label = Label(row.label, self, style="label")
        value = Label(parent=self, name=row.name, style="value", wraps=True, selectable=True)
        value.setAccessibleName(row.label)
        label.setBuddy(value)
        for each in (label, value):
            each.setAlignment(Qt.AlignmentFlag.AlignTop)
            set_tip(each, row.explanation)
        line = len(self._values)
        self._layout.addWidget(label, line, 0, Qt.AlignmentFlag.AlignTop)
        self._layout.addWidget(value, line, 1, Qt.AlignmentFlag.AlignTop)
        self._values[row.name], self._labels[row.name] = value, label
