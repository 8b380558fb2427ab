"""The controls of the settings: fields for a whole number and for a size, and a switch."""

from __future__ import annotations

import re

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QValidator
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QSizePolicy, QSpinBox

from desktop import theme
from desktop.number_format import NotANumberError, UnclearNumberError, parse_number, whole_number
from desktop.numbers import format_count
from desktop.settings.budgets import exact_bytes, parse_size, stepped

LARGEST = 2**31 - 1
LONGEST_SIZE = 40
SWITCH_WIDTH, SWITCH_HEIGHT = 36, 20
KNOB = 14


class NumberBox(QSpinBox):
    """Steps between `least` and `most`. A number beyond them can be typed; its owner refuses it."""

    # The text is no whole number; True if its separators are out of place in this locale.
    not_taken = Signal(str, bool)

    def __init__(self, least: int, most: int, step: int) -> None:
        super().__init__()
        self.least, self.most = least, most
        # Qt would change a number out of range silently.
        self.setRange(-LARGEST, LARGEST)
        # Qt ignores the style sheet's left padding in a spin box.
        self.lineEdit().setTextMargins(7, 0, 0, 0)
        self.setSingleStep(step)
        self.setKeyboardTracking(False)

    def stepBy(self, steps: int) -> None:
        wanted = self.value() + steps * self.singleStep()
        self.setValue(max(self.least, min(self.most, wanted)))

    def stepEnabled(self) -> QSpinBox.StepEnabledFlag:
        flags = QSpinBox.StepEnabledFlag
        up = flags.StepUpEnabled if self.value() < self.most else flags.StepNone
        down = flags.StepDownEnabled if self.value() > self.least else flags.StepNone
        return up | down

    # Qt ignores separators wherever they are: '1,5' would be 15.

    def textFromValue(self, value: int) -> str:
        return format_count(value)

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
        # Called when editing ends; Qt then shows the value from before.
        try:
            self.valueFromText(text)
        except NotANumberError as error:
            if text.strip():
                self.not_taken.emit(text.strip(), isinstance(error, UnclearNumberError))
        else:
            self.not_taken.emit(text.strip(), False)
        return text


class SizeBox(QAbstractSpinBox):
    """Shows a size, typed as '1.5 GB' or '700 MB', or stepped with arrows and wheel."""

    # object, since an int of Qt's ends at 2 GB.
    # int: the user wants this many bytes.
    size_asked = Signal(object)
    # As in `NumberBox`.
    not_taken = Signal(str, bool)

    def __init__(self) -> None:
        super().__init__()
        self._size = 0
        # Qt ignores the style sheet's left padding in a spin box.
        self.lineEdit().setMaxLength(LONGEST_SIZE)
        self.lineEdit().setTextMargins(7, 0, 0, 0)
        self.editingFinished.connect(self._on_edited)

    @property
    def size_shown(self) -> int:
        return self._size

    def show_size(self, size: int) -> None:
        self._size = size
        self.lineEdit().setText(exact_bytes(size))

    def stepBy(self, steps: int) -> None:
        self._ask(stepped(self._size, steps))

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:
        return self.StepEnabledFlag.StepUpEnabled | self.StepEnabledFlag.StepDownEnabled

    def _ask(self, size: int) -> None:
        self.show_size(size)
        self.size_asked.emit(size)

    def _on_edited(self) -> None:
        text = self.lineEdit().text()
        if text == exact_bytes(self._size):
            return
        try:
            size = parse_size(text)
        except NotANumberError as error:
            self.not_taken.emit(text, isinstance(error, UnclearNumberError))
        else:
            self._ask(size)


class Switch(QAbstractButton):
    """A check box drawn as a knob on a rail."""

    def __init__(self) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        theme.signals().changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(SWITCH_WIDTH + 4, SWITCH_HEIGHT + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        table = theme.colours()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rail = QRectF(2, 2, SWITCH_WIDTH, SWITCH_HEIGHT)
        on, enabled = self.isChecked(), self.isEnabled()
        colour = table.accent if on else table.surface
        edge = table.accent if on or self.hasFocus() else table.border_strong
        knob = table.on_accent if on else table.muted
        if not enabled:
            colour, edge, knob = table.room, table.border, table.disabled
        painter.setBrush(QColor(colour))
        painter.setPen(QPen(QColor(edge), 1))
        painter.drawRoundedRect(rail, SWITCH_HEIGHT / 2, SWITCH_HEIGHT / 2)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(knob))
        inside = (SWITCH_HEIGHT - KNOB) / 2
        left = rail.right() - inside - KNOB if on else rail.left() + inside
        painter.drawEllipse(QRectF(left, rail.top() + inside, KNOB, KNOB))
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(table.text), 1))
            painter.drawRoundedRect(rail.adjusted(-1.5, -1.5, 1.5, 1.5), 12, 12)
