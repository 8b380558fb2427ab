"""Controls of the settings: a number or a size, and a switch."""

from __future__ import annotations

import re
from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QValidator
from PySide6.QtWidgets import QAbstractButton, QDoubleSpinBox, QPlainTextEdit, QSizePolicy

from desktop import theme
from desktop.number_format import NotANumberError, UnclearNumberError, parse_number, whole_number
from desktop.numbers import format_count
from desktop.settings.budgets import exact_bytes, parse_size, stepped

LARGEST = 10.0**18
LONGEST_TEXT = 40
LONGEST_LINES = 4_000
NARROWEST = 68
SWITCH_WIDTH, SWITCH_HEIGHT = 36, 20
KNOB = 14


# Qt's box of whole numbers ends at 2 GB.
class NumberBox(QDoubleSpinBox):
    """Its owner refuses numbers out of bounds. `parse` raises NotANumberError."""

    # The text is no such number; True if its separators are out of place in this locale.
    not_taken = Signal(str, bool)

    def __init__(
        self,
        parse: Callable[[str], int],
        written: Callable[[int], str],
        stepped: Callable[[int, int], int],
        letters: bool = False,
    ) -> None:
        super().__init__()
        self._parse, self._written, self._stepped = parse, written, stepped
        self._letters = letters
        # Qt would change a number out of range silently.
        self.setRange(-LARGEST, LARGEST)
        self.setDecimals(0)
        # Qt ignores the style sheet's left padding in a spin box.
        self.lineEdit().setTextMargins(7, 0, 0, 0)
        self.lineEdit().setMaxLength(LONGEST_TEXT)
        self.setKeyboardTracking(False)

    @classmethod
    def counting(cls, least: int, most: int, step: int) -> NumberBox:
        def step_from(value: int, steps: int) -> int:
            return max(least, min(most, value + steps * step))

        return cls(lambda text: whole_number(parse_number(text)), format_count, step_from)

    @classmethod
    def of_size(cls) -> NumberBox:
        """For bytes, typed as '1.5 GB' or '700 MB'."""
        return cls(parse_size, exact_bytes, stepped, letters=True)

    def number(self) -> int:
        return int(self.value())

    def show_number(self, number: int) -> None:
        """Not reported as changed."""
        self.blockSignals(True)
        self.setValue(number)
        self.blockSignals(False)

    def stepBy(self, steps: int) -> None:
        self.setValue(self._stepped(self.number(), steps))

    def stepEnabled(self) -> QDoubleSpinBox.StepEnabledFlag:
        flags, value = QDoubleSpinBox.StepEnabledFlag, self.number()
        up = flags.StepUpEnabled if self._stepped(value, 1) > value else flags.StepNone
        down = flags.StepDownEnabled if self._stepped(value, -1) < value else flags.StepNone
        return up | down

    def sizeHint(self) -> QSize:
        # Qt's own is as wide as the largest number.
        return QSize(theme.px(NARROWEST), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    # Qt ignores separators wherever they are: '1,5' would be 15.

    def textFromValue(self, value: float) -> str:
        return self._written(int(value))

    def valueFromText(self, text: str) -> float:
        return float(self._parse(text))

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        state = QValidator.State.Intermediate
        try:
            if abs(self.valueFromText(text)) <= LARGEST:
                state = QValidator.State.Acceptable
        except NotANumberError:
            if not self._letters and re.search(r"[^\W\d]", text):
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


class Switch(QAbstractButton):
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


class TextLines(QPlainTextEdit):
    r"""One short text a line, in which `\n` is a line break and `\t` a tab."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("class", "field")
        self.setTabChangesFocus(True)
        self.setFixedHeight(3 * self.fontMetrics().lineSpacing() + 14)
        self.textChanged.connect(self.changed)

    def lines(self) -> tuple[str, ...]:
        found = (_unescaped(line) for line in self.toPlainText()[:LONGEST_LINES].split("\n"))
        return tuple(dict.fromkeys(line for line in found if line))

    def show_lines(self, lines: object) -> None:
        if isinstance(lines, tuple) and lines != self.lines():
            self.setPlainText("\n".join(map(_escaped, lines)))


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def _unescaped(line: str) -> str:
    letters = {"n": "\n", "t": "\t", "\\": "\\"}
    return re.sub(r"\\([nt\\])", lambda found: letters[found[1]], line)
