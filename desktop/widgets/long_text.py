"""A plain text field for very long texts: filled in steps, with very long lines broken.

Lines are broken on screen only: the field returns and copies exactly its text, and the cursor and
deletion skip the breaks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.pacing import pace
from desktop.widgets.plain import named

# Characters per step: a few milliseconds even if each has its own line.
STEP = 4_000
LONGEST_LINE = 5_000
# A line is broken after a space within this distance, if there is one.
WORD = 100
# More than the longest context holds (262,144 tokens).
LONGEST_TEXT = 2_000_000
# Qt takes too long to free more lines.
MOST_LINES = 50_000
# Marks a line break that isn't in the text: three invisible characters that don't occur in texts.
_MARK = "\u2063\u2064\u2063"
_BROKEN = f"{_MARK}\n"
# Qt's line ends.
_LINE_END = re.compile("\r\n|\r|\u2029")


@dataclass(slots=True)
class _Rest:
    """`undone`: the insertion can be undone."""

    place: QTextCursor
    text: str
    undone: bool = True
    begun: bool = False
    shows_end: bool = False


class LongText(QPlainTextEdit):
    # Why a pasted text was not added.
    refused = Signal(str)
    longest_line = LONGEST_LINE

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rests: list[_Rest] = []
        self._held: list[QEvent] = []
        self._was_at = 0
        self.cursorPositionChanged.connect(self._leave_mark)

    def take_text(self, text: str, plain: bool = False) -> None:
        """`plain`: into this field, whatever a subclass does with long texts."""
        text = _LINE_END.sub("\n", text)
        reason = too_long(text)
        if reason:
            self.refused.emit(tr("Not added: {reason}").format(reason=reason))
        elif plain or not self.gave_away(text):
            self.put(text, shows_end=True)

    def gave_away(self, text: str) -> bool:
        """True if a given text was taken elsewhere."""
        return False

    def put(self, text: str, place: QTextCursor | None = None, shows_end: bool = False) -> None:
        """Replaces the selection by default. `shows_end`: then scroll to the cursor."""
        cursor = QTextCursor(place or self.textCursor())
        # Removing and inserting are undone together.
        begun = cursor.hasSelection()
        cursor.removeSelectedText()
        text = self._broken(_LINE_END.sub("\n", text), self._column(cursor))
        self._rests.append(_Rest(cursor, text, begun=begun, shows_end=shows_end))
        if self._take_in():
            pace().go_on(self._take_in)

    def is_complete(self) -> bool:
        return not self._rests

    def setPlainText(self, text: str) -> None:
        text = self._broken(_LINE_END.sub("\n", text))
        self._rests.clear()
        at = _whole_step(text)
        end = QTextCursor(self.document())
        if len(text) > at:
            # Before: slots called for the first piece find the text incomplete, but whole.
            self._rests.append(_Rest(end, text[at:], undone=False))
            pace().go_on(self._take_in)
        super().setPlainText(text[:at])

    def toPlainText(self) -> str:
        text = super().toPlainText()
        if self._rests:
            text = self._with_rests(text)
        return text.replace(_BROKEN, "")

    def _take_in(self) -> bool:
        """Returns False at the end."""
        if not self._rests:
            return False
        rest = self._rests[0]
        at = _whole_step(rest.text)
        piece, rest.text = rest.text[:at], rest.text[at:]
        if not rest.text:
            # Slots called for the last piece find the text complete.
            self._rests.remove(rest)
        if rest.undone:
            # One undo step for all pieces.
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
        if rest.shows_end:
            self.ensureCursorVisible()
        # Keys that were pressed meanwhile.
        while self._held and not self._rests:
            QCoreApplication.sendEvent(self, self._held.pop(0))

    def _with_rests(self, text: str) -> str:
        # Qt counts UTF-16 units.
        units = text.encode("utf-16-le", "surrogatepass")
        in_order = sorted(self._rests, key=lambda each: each.place.position())
        # From the end, so that earlier places stay valid.
        for rest in reversed(in_order):
            at = 2 * rest.place.position()
            units = units[:at] + rest.text.encode("utf-16-le", "surrogatepass") + units[at:]
        return units.decode("utf-16-le", "surrogatepass")

    def _column(self, cursor: QTextCursor) -> int:
        waiting = [rest.text for rest in self._rests if rest.place == cursor]
        if waiting:
            return len(waiting[-1]) - waiting[-1].rfind("\n") - 1
        return min(self.longest_line, cursor.positionInBlock())

    def _broken(self, text: str, column: int = 0) -> str:
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
        # Qt's own also makes HTML of it.
        data = QMimeData()
        data.setText(self.textCursor().selectedText().replace("\u2029", "\n").replace(_BROKEN, ""))
        return data

    # Keys.

    def event(self, event: QEvent) -> bool:
        # Keys wait until the text is complete.
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
        cursor = QTextCursor(self.textCursor())
        cursor.movePosition(move, QTextCursor.MoveMode.KeepAnchor, len(_BROKEN))
        if cursor.selectedText().replace("\u2029", "\n") == _BROKEN:
            cursor.clearSelection()
            self.setTextCursor(cursor)

    def _leave_mark(self) -> None:
        """Move the cursor out of a line break of ours."""
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
    """The next piece must not end inside a line break of ours."""
    at = min(STEP, len(text))
    while at < len(text) and text[at - 1] in _MARK:
        at += 1
    return at


def too_long(text: str) -> str:
    lines = text.count("\n") + 1
    if len(text) > LONGEST_TEXT:
        words = tr("a message can have {most} characters, and this text has {count}.")
        return words.format(count=format_count(len(text)), most=format_count(LONGEST_TEXT))
    if lines > MOST_LINES:
        words = tr("a message can have {most} lines, and this text has {count}.")
        return words.format(count=format_count(lines), most=format_count(MOST_LINES))
    return ""


def text_field(name: str, spoken: str) -> LongText:
    field = named(LongText(), name, spoken)
    field.setProperty("class", "field")
    field.setTabChangesFocus(True)
    return field
