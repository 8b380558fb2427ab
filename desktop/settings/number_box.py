"""A field for a whole number that takes what is typed, so that someone can say what is wrong."""

from __future__ import annotations

import re

from PySide6.QtCore import Signal
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QSpinBox, QWidget

from desktop.number_format import (
    NotANumberError,
    UnclearNumberError,
    parse_number,
    whole,
    whole_number,
)

LARGEST = 2**31 - 1


class NumberBox(QSpinBox):
    """Steps between `least` and `most`; a number beyond them can be typed, and is its owner's.

    Signals:
        not_taken(str, bool): what was typed is no whole number; True if its separators are out of
            place in this locale.
    """

    not_taken = Signal(str, bool)

    def __init__(self, least: int, most: int, step: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.least, self.most = least, most
        # Qt's own range would change what was typed, in silence.
        self.setRange(-LARGEST, LARGEST)
        # Qt ignores the style sheet's left padding in a spin box.
        self.lineEdit().setTextMargins(7, 0, 0, 0)
        self.setSingleStep(step)
        # A number half typed is no wish yet.
        self.setKeyboardTracking(False)

    def stepBy(self, steps: int) -> None:
        wanted = self.value() + steps * self.singleStep()
        self.setValue(max(self.least, min(self.most, wanted)))

    def stepEnabled(self) -> QSpinBox.StepEnabledFlag:
        flags = QSpinBox.StepEnabledFlag
        up = flags.StepUpEnabled if self.value() < self.most else flags.StepNone
        down = flags.StepDownEnabled if self.value() > self.least else flags.StepNone
        return up | down

    # Qt's own reading drops separators wherever they are: '1,5' would be 15.

    def textFromValue(self, value: int) -> str:
        return whole(value)

    def valueFromText(self, text: str) -> int:
        return whole_number(parse_number(text))

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        state = QValidator.State.Intermediate
        try:
            if abs(self.valueFromText(text)) <= LARGEST:
                state = QValidator.State.Acceptable
        except NotANumberError:
            if re.search(r"[^\W\d]", text):
                state = QValidator.State.Invalid
        return state, text, place

    def fixup(self, text: str) -> str:
        # Called once editing is over; Qt then shows the value before it again.
        try:
            self.valueFromText(text)
        except NotANumberError as error:
            if text.strip():
                self.not_taken.emit(text.strip(), isinstance(error, UnclearNumberError))
        else:
            self.not_taken.emit(text.strip(), False)
        return text
