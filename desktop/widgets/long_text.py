"""A field of plain text that may be very long: filled step by step, and its endless lines broken.

Qt lays out what is seen, but takes in all of a text at once, and lays out a line at once however
long it is. Knows how much of both takes how long. A broken line is broken for the eye only: what
the field gives back, copied or sent, is exactly what it was given. So a break is one place for the
cursor, and whoever deletes over one deletes a letter beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from desktop.number_format import whole
from desktop.widgets.pacing import pace

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
_MARK = "\u2063\u2064\u2063"
_BROKEN = f"{_MARK}\n"
# Everything that Qt takes for the end of a line.
_LINE_END = re.compile("\r\n|\r|\u2029")


@dataclass(slots=True)
class _Rest:
    """What is still to be put in, and where; `undone` says whether all of it can be undone."""

    place: QTextCursor
    text: str
    undone: bool = True
    begun: bool = False
    shows_end: bool = False


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
        # Keys that were pressed while text was still coming in.
        self._held: list[QEvent] = []
        self._was_at = 0
        self.cursorPositionChanged.connect(self._leave_mark)

    def take_text(self, text: str) -> None:
        """Put text in where the cursor is, unless it is more than the field can work with."""
        text = _LINE_END.sub("\n", text)
        reason = too_long(text)
        if reason:
            self.refused.emit(f"Not taken: {reason}")
        else:
            self.put(text, shows_end=True)

    def put(self, text: str, place: QTextCursor | None = None, shows_end: bool = False) -> None:
        """Put text in at a place, by default in place of what is selected.

        With `shows_end` the field is scrolled to the cursor when all is in.
        """
        cursor = QTextCursor(place or self.textCursor())
        # What goes for it and what comes are undone at once.
        begun = cursor.hasSelection()
        cursor.removeSelectedText()
        text = self._broken(_LINE_END.sub("\n", text), self._column(cursor))
        self._rests.append(_Rest(cursor, text, begun=begun, shows_end=shows_end))
        if self._take_in():
            pace().go_on(self._take_in)

    def is_complete(self) -> bool:
        """Whether all text is in the field."""
        return not self._rests

    def setPlainText(self, text: str) -> None:
        text = self._broken(_LINE_END.sub("\n", text))
        self._rests.clear()
        at = _whole_step(text)
        super().setPlainText(text[:at])
        if len(text) > at:
            end = QTextCursor(self.document())
            end.movePosition(QTextCursor.MoveOperation.End)
            self._rests.append(_Rest(end, text[at:], undone=False))
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
        at = _whole_step(rest.text)
        piece, rest.text = rest.text[:at], rest.text[at:]
        if not rest.text:
            # Who hears of the last piece finds the text whole.
            self._rests.remove(rest)
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
        if not rest.text:
            self._end(rest)
        return bool(self._rests)

    def _end(self, rest: _Rest) -> None:
        """All of it is in: go on with what was pressed meanwhile."""
        if rest.shows_end:
            self.ensureCursorVisible()
        while self._held and not self._rests:
            QCoreApplication.sendEvent(self, self._held.pop(0))

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
        # Qt's own would make a page of HTML of it first.
        data = QMimeData()
        data.setText(self.textCursor().selectedText().replace("\u2029", "\n").replace(_BROKEN, ""))
        return data

    # Keys.

    def event(self, event: QEvent) -> bool:
        # Nothing comes between the steps of one text, nor into the middle of it.
        if self._rests and event.type() in (QEvent.Type.KeyPress, QEvent.Type.InputMethod):
            self._held.append(event.clone())
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self.isReadOnly() and not self.textCursor().hasSelection():
            if event.key() == Qt.Key.Key_Backspace:
                self._step_over_mark(QTextCursor.MoveOperation.PreviousCharacter)
            elif event.key() == Qt.Key.Key_Delete:
                self._step_over_mark(QTextCursor.MoveOperation.NextCharacter)
        super().keyPressEvent(event)

    def _step_over_mark(self, move: QTextCursor.MoveOperation) -> None:
        """Go to the other side of a broken line's end, if the cursor is next to one."""
        cursor = QTextCursor(self.textCursor())
        cursor.movePosition(move, QTextCursor.MoveMode.KeepAnchor, len(_BROKEN))
        if cursor.selectedText().replace("\u2029", "\n") == _BROKEN:
            cursor.clearSelection()
            self.setTextCursor(cursor)

    def _leave_mark(self) -> None:
        """Go on where the cursor has come between a mark and the end of its line."""
        cursor = self.textCursor()
        at, was_at = cursor.position(), self._was_at
        end = cursor.block().position() + cursor.block().length() - 1
        is_near = end - len(_MARK) < at <= end and cursor.block().next().isValid()
        if is_near and cursor.block().text().endswith(_MARK):
            at = end + 1 if was_at == end - len(_MARK) else end - len(_MARK)
            modes = QTextCursor.MoveMode
            cursor.setPosition(at, modes.KeepAnchor if cursor.hasSelection() else modes.MoveAnchor)
            self.setTextCursor(cursor)
        self._was_at = at


def _whole_step(text: str) -> int:
    """Where to cut a text that comes in steps: not between a mark and its end of a line."""
    at = min(STEP, len(text))
    while at < len(text) and text[at - 1] in _MARK:
        at += 1
    return at


def too_long(text: str) -> str:
    """Why a text is more than a field can work with, as a sentence; '' if it isn't."""
    lines = text.count("\n") + 1
    if len(text) > LONGEST_TEXT:
        return (
            f"a text of {whole(len(text))} characters is longer than a message can be "
            f"({whole(LONGEST_TEXT)})."
        )
    if lines > MOST_LINES:
        return (
            f"a text of {whole(lines)} lines has more than a message can have "
            f"({whole(MOST_LINES)})."
        )
    return ""
