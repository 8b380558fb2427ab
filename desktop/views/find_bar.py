"""Finds words in the shown chat: from message to message, and from match to match within one.

Which messages hold the words is told from what was written; where they stand in a message, from
what is drawn of it. A message whose marks part the words is shown without a match marked.
"""

from __future__ import annotations

import shiboken6
from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeyEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QTextEdit

from desktop.common import theme
from desktop.presentation.transcript import Transcript
from desktop.views.transcript_view import TranscriptView
from desktop.views.widgets.icon_button import IconButton
from desktop.views.widgets.plain import Label
from desktop.views.widgets.text_selection import TextField
from desktop.words import find as words

# Looking through a long chat at every key would be felt.
LOOKED_AFTER_MS = 120
LONGEST = 200
MOST_MATCHES = 500

Match = tuple[TextField, QTextCursor]


class FindField(QLineEdit):
    """What is looked for.

    Signals:
        stepped(int): go to the next match (1) or the one before (-1).
        left(): Esc was pressed.
    """

    stepped = Signal(int)
    left = Signal()

    def event(self, event: QEvent) -> bool:
        # Else the window's own Esc, which stops a reply, would have it.
        if isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape:
            event.accept()
            if event.type() == QEvent.Type.KeyPress:
                self.left.emit()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            self.stepped.emit(-1 if back else 1)
        else:
            super().keyPressEvent(event)


class FindBar(QFrame):
    """A field over the conversation, folded away until asked for.

    Signals:
        closed(): the user has done with it.
    """

    closed = Signal()

    def __init__(self, transcript: Transcript, view: TranscriptView) -> None:
        super().__init__()
        self.setObjectName("findBar")
        self.setProperty("class", "panel")
        self._transcript = transcript
        self._view = view
        self._place: int | None = None
        self._nth = 0
        self._marked: list[TextField] = []
        self._field = FindField()
        self._field.setObjectName("findText")
        self._field.setAccessibleName(words.NAME)
        self._field.setPlaceholderText(words.PLACEHOLDER)
        self._field.setMaxLength(LONGEST)
        self._count = Label(name="findCount", style="muted small")
        self._later = QTimer(self, singleShot=True, interval=LOOKED_AFTER_MS)
        self._later.timeout.connect(self._look)
        self._field.textChanged.connect(self._later.start)
        self._field.stepped.connect(self.step)
        self._field.left.connect(self.leave)
        transcript.chat_changed.connect(self._forget)
        transcript.rows_replaced.connect(self._forget)
        self._build()
        self.hide()

    def begin(self) -> None:
        """Show the field, with the keyboard in it."""
        self.show()
        self._field.setFocus()
        self._field.selectAll()

    def leave(self) -> None:
        """Fold it away, and mark nothing any more."""
        self._later.stop()
        self._forget()
        self.hide()
        self.closed.emit()

    def step(self, step: int) -> None:
        """Go to the next match (1) or the one before (-1); from the last, to the first again."""
        if self._later.isActive():
            self._later.stop()
            self._look()
            return
        places = self._places()
        if not places:
            self._say_nothing()
            return
        matches = self._matches()
        if self._place in places and 0 <= self._nth + step < len(matches):
            self._nth += step
            self._mark(matches)
            return
        at = places.index(self._place) + step if self._place in places else 0
        self._show(places, at % len(places), last=step < 0)

    def _look(self) -> None:
        """The words are others: show the first message that holds them, from what is seen on."""
        self._forget()
        places = self._places()
        if not places:
            self._say_nothing()
            return
        seen = self._view.first_seen
        at = next((at for at, place in enumerate(places) if place >= seen), 0)
        self._show(places, at, last=False)

    def _show(self, places: list[int], at: int, last: bool) -> None:
        self._place = places[at]
        self._view.show_message(self._place)
        self._view.messages.show_words(self._place)
        matches = self._matches()
        self._nth = max(0, len(matches) - 1) if last else 0
        self._mark(matches)
        self._count.setText(words.place_words(at, len(places)))

    def _places(self) -> list[int]:
        """The messages that hold the words."""
        wanted = self._field.text().casefold()
        rows = self._transcript.rows
        return [at for at, row in enumerate(rows) if wanted and wanted in row.text.casefold()]

    def _matches(self) -> list[Match]:
        """Where the words stand in the message shown now, in order."""
        found: list[Match] = []
        fields = self._view.messages.fields_at(self._place) if self._place is not None else []
        for field in fields:
            cursor = field.document().find(self._field.text(), 0)
            while not cursor.isNull() and len(found) < MOST_MATCHES:
                found.append((field, cursor))
                cursor = field.document().find(self._field.text(), cursor)
        return found

    def _mark(self, matches: list[Match]) -> None:
        """Mark all matches of a message, and bring the one that is meant into view."""
        self._unmark()
        table = theme.colours()
        for field in dict.fromkeys(field for field, _ in matches):
            marks = []
            for number, (owner, cursor) in enumerate(matches):
                if owner is field:
                    mark = QTextEdit.ExtraSelection()
                    mark.cursor = cursor
                    mark.format.setBackground(
                        QColor(table.accent if number == self._nth else table.accent_soft)
                    )
                    if number == self._nth:
                        mark.format.setForeground(QColor(table.on_accent))
                    marks.append(mark)
            field.setExtraSelections(marks)
            self._marked.append(field)
        if matches:
            field, cursor = matches[self._nth]
            self._view.show_part(field, cursor)

    def _unmark(self) -> None:
        for field in self._marked:
            if shiboken6.isValid(field):
                field.setExtraSelections([])
        self._marked = []

    def _forget(self) -> None:
        self._unmark()
        self._place, self._nth = None, 0
        self._count.setText("")

    def _say_nothing(self) -> None:
        self._count.setText(words.NOTHING if self._field.text() else "")

    def _build(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 4, 4, 4)
        row.addWidget(self._field, 1)
        row.addWidget(self._count)
        for icon, says, name, act in (
            ("chevron_left", words.BEFORE, "findBefore", lambda: self.step(-1)),
            ("chevron_right", words.NEXT, "findNext", lambda: self.step(1)),
            ("close", words.CLOSE, "findClose", self.leave),
        ):
            button = IconButton(icon, says, name=name)
            button.clicked.connect(act)
            row.addWidget(button)
