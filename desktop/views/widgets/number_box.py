"""A field for a whole number that takes what is typed, so that someone can say what is wrong."""

from __future__ import annotations

from PySide6.QtWidgets import QSpinBox, QWidget

LARGEST = 2**31 - 1


class NumberBox(QSpinBox):
    """Steps between `least` and `most`; a number beyond them can be typed, and is its owner's."""

    def __init__(self, least: int, most: int, step: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.least, self.most = least, most
        # Qt's own range would change what was typed, in silence.
        self.setRange(-LARGEST, LARGEST)
        # Qt ignores the style sheet's left padding in a spin box.
        self.lineEdit().setTextMargins(7, 0, 0, 0)
        self.setGroupSeparatorShown(True)
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
