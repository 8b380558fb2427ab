"""A field for a size in bytes: typed as '1.5 GB' or '700 MB', or stepped with arrows and wheel."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QAbstractSpinBox, QWidget

from desktop.number_format import UnclearNumberError
from desktop.settings.budgets import exact_bytes, parse_size, stepped

LONGEST_SIZE = 40


class SizeBox(QAbstractSpinBox):
    """Shows a size and asks for another.

    Signals:
        size_asked(int): the user wants this many bytes.
        not_understood(str): what was typed is no size.
        unclear(str): its number is written as this locale doesn't write numbers.
    """

    # object, for an int of Qt's ends at 2 GB.
    size_asked = Signal(object)
    not_understood = Signal(str)
    unclear = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._size = 0
        # Qt ignores the style sheet's left padding in a spin box.
        self.lineEdit().setMaxLength(LONGEST_SIZE)
        self.lineEdit().setTextMargins(7, 0, 0, 0)
        self.editingFinished.connect(self._on_edited)

    @property
    def size_shown(self) -> int:
        """The bytes shown, whether taken or not."""
        return self._size

    def show_size(self, size: int) -> None:
        """Show a size; asks for nothing."""
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
        # Leaving the field, or Enter, without a change asks for nothing.
        if text == exact_bytes(self._size):
            return
        try:
            size = parse_size(text)
        except UnclearNumberError:
            self.unclear.emit(text)
            return
        if size is None:
            self.not_understood.emit(text)
        else:
            self._ask(size)
