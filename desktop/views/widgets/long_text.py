"""A field of plain text that may be very long: filled step by step, and its endless lines broken.

Qt lays out what is seen, but takes in all of a text at once, and lays out a line at once however
long it is. Knows how much of both takes how long. A broken line is broken for the eye only: what
the field gives back, copied or sent, is exactly what it was given.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QMimeData, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from desktop.views.pacing import pace

# Taken in at a step: some milliseconds, if each letter has a line of its own.
STEP = 4_000
LONGEST_LINE = 5_000
# A line is broken after a space, if there is one so near.
WORD = 100
# More than the longest context holds (262,144 tokens).
LONGEST_TEXT = 2_000_000
# More lines than this take Qt longer to throw away than the window may be kept waiting.
MOST_LINES = 50_000
# Stands before the end of a line that is none. Three letters that are not seen, and that nobody
# has written in this order.
_BROKEN = "\u2063\u2064\u2063\n"


@dataclass(slots=True)
class _Rest:
    """What is still to be put in, and where; `undone` says whether all of it can be undone."""

    place: QTextCursor
    text: str
    undone: bool = True
    begun: bool = False


class LongText(QPlainTextEdit):
    """Plain text; `setPlainText` and `put` take it in step by step.

    Signals:
        refused(str): what was pasted and not taken, and why.
    """

    refused = Signal(str)
    longest_line = LONGEST_LINE

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rests: list[_Rest] = []

    def take_text(self, text: str) -> None:
        """Put text in where the cursor is, unless it is more than the field can work with."""
        reason = too_long(text)
        if reason:
            self.refused.emit(f"Not taken: {reason}")
        else:
            self.put(text)
            self.ensureCursorVisible()

    def put(self, text: str, place: QTextCursor | None = None) -> None:
        """Put text in at a place, by default in place of what is selected."""
        cursor = QTextCursor(place or self.textCursor())
        cursor.removeSelectedText()
        self._rests.append(_Rest(cursor, self._broken(text, self._column(cursor))))
        if self._take_in():
            pace().go_on(self._take_in)

    def is_complete(self) -> bool:
        """Whether all text is in the field."""
        return not self._rests

    def setPlainText(self, text: str) -> None:
        text = self._broken(text)
        self._rests.clear()
        super().setPlainText(text[:STEP])
        if len(text) > STEP:
            end = QTextCursor(self.document())
            end.movePosition(QTextCursor.MoveOperation.End)
            self._rests.append(_Rest(end, text[STEP:], undone=False))
            pace().go_on(self._take_in)

    def toPlainText(self) -> str:
        text = super().toPlainText()
        if self._rests:
            text = self._with_rests(text)
        return text.replace(_BROKEN, "")

    def _take_in(self) -> bool:
        """Put in a little more; says whether anything is left."""
        if not self._rests:
            return False
        rest = self._rests[0]
        piece, rest.text = rest.text[:STEP], rest.text[STEP:]
        if not rest.text:
            del self._rests[0]
        if rest.undone:
            # All steps at once, and nothing that was typed before.
            join = rest.place.joinPreviousEditBlock if rest.begun else rest.place.beginEditBlock
            join()
            rest.begun = True
            rest.place.insertText(piece)
            rest.place.endEditBlock()
        else:
            undoes = self.isUndoRedoEnabled()
            self.setUndoRedoEnabled(False)
            rest.place.insertText(piece)
            self.setUndoRedoEnabled(undoes)
        return bool(self._rests)

    def _with_rests(self, text: str) -> str:
        # Qt counts in units of two bytes.
        units = text.encode("utf-16-le", "surrogatepass")
        in_order = sorted(self._rests, key=lambda each: each.place.position())
        # From the end on, so that no place moves before its turn.
        for rest in reversed(in_order):
            at = 2 * rest.place.position()
            units = units[:at] + rest.text.encode("utf-16-le", "surrogatepass") + units[at:]
        return units.decode("utf-16-le", "surrogatepass")

    def _column(self, cursor: QTextCursor) -> int:
        """How long the line is already at a place, with what is still on its way there."""
        waiting = [rest.text for rest in self._rests if rest.place == cursor]
        if waiting:
            return len(waiting[-1]) - waiting[-1].rfind("\n") - 1
        return min(self.longest_line, cursor.positionInBlock())

    def _broken(self, text: str, column: int = 0) -> str:
        """The text with the ends put in that its endless lines are shown with."""
        if column + len(text) <= self.longest_line:
            return text
        lines = []
        for line in text.split("\n"):
            start = 0
            while column + len(line) - start > self.longest_line:
                end = start + self.longest_line - column
                end = line.rfind(" ", max(start, end - WORD), end) + 1 or end
                lines.append(line[start:end] + _BROKEN)
                start, column = end, 0
            lines.append(line[start:] + "\n")
            column = 0
        return "".join(lines).removesuffix("\n")

    def insertFromMimeData(self, source: QMimeData) -> None:
        self.take_text(source.text())

    def createMimeDataFromSelection(self) -> QMimeData:
        data = QMimeData()
        data.setText(super().createMimeDataFromSelection().text().replace(_BROKEN, ""))
        return data


def too_long(text: str) -> str:
    """Why a text is more than a field can work with, as a sentence; '' if it isn't."""
    lines = text.count("\n") + 1
    if len(text) > LONGEST_TEXT:
        return (
            f"a text of {len(text):,} characters is longer than a message can be "
            f"({LONGEST_TEXT:,})."
        )
    if lines > MOST_LINES:
        return f"a text of {lines:,} lines has more than a message can have ({MOST_LINES:,})."
    return ""
