"""Find in the shown chat, from match to match and message to message."""

from __future__ import annotations

import shiboken6
from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeyEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QTextEdit

from desktop import theme
from desktop.chat.markdown.text_selection import TextField
from desktop.chat.transcript import Transcript
from desktop.chat.transcript_view import TranscriptView
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.icon_button import IconButton
from desktop.widgets.plain import Label

# Looking through a long chat at every key would be felt.
LOOKED_AFTER_MS = 120
LONGEST = 200
# Counted and marked in one message.
MOST_MATCHES = 500
# A long message is drawn in steps: how often to look for the match that is wanted.
LOOKED_AGAIN_MS = 30

Match = tuple[TextField, QTextCursor]


class FindField(QLineEdit):
    """The search text. `stepped(1)`: next match; `stepped(-1)`: previous. `left()`: Esc."""

    stepped = Signal(int)
    left = Signal()

    def event(self, event: QEvent) -> bool:
        # Otherwise the window's Esc, which stops a reply, would take it.
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
    """A search field over the conversation. `closed()`: the user has closed it.

    Matches are counted in the source of messages; of visited ones, in what is drawn. A match that
    isn't drawn, like the address of a link, counts as one and is shown without a mark.
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
        self._step = 1
        # Matches of messages that were visited, as they are drawn.
        self._drawn: dict[int, int] = {}
        self._marked: list[TextField] = []
        self._field = FindField()
        self._field.setObjectName("findText")
        self._field.setAccessibleName(tr("Find in this chat"))
        self._field.setPlaceholderText(tr("Find in this chat"))
        self._field.setMaxLength(LONGEST)
        self._count = Label(name="findCount", style="muted small")
        self._later = QTimer(self, singleShot=True, interval=LOOKED_AFTER_MS)
        self._later.timeout.connect(self._look)
        self._again = QTimer(self, singleShot=True, interval=LOOKED_AGAIN_MS)
        self._again.timeout.connect(self._seek)
        self._field.textChanged.connect(self._later.start)
        self._field.stepped.connect(self.step)
        self._field.left.connect(self.leave)
        transcript.chat_changed.connect(self._forget)
        transcript.rows_replaced.connect(self._forget)
        self._build()
        self.hide()

    def begin(self) -> None:
        self.show()
        self._field.setFocus()
        self._field.selectAll()

    def leave(self) -> None:
        self._later.stop()
        self._forget()
        self.hide()
        self.closed.emit()

    def step(self, step: int) -> None:
        if self._later.isActive():
            self._later.stop()
            self._look()
            return
        counts = self._counts()
        if not counts:
            self._say_nothing()
            return
        if self._place in counts and 0 <= self._nth + step < counts[self._place]:
            self._nth, self._step = self._nth + step, step
            self._seek()
        else:
            self._go_to(self._next_place(list(counts), step), step)

    def _look(self) -> None:
        """After a new text: show the first message with a match, from the visible ones on."""
        self._forget()
        counts = self._counts()
        if not counts:
            self._say_nothing()
            return
        seen = self._view.first_seen
        self._go_to(next((place for place in counts if place >= seen), next(iter(counts))), 1)

    def _go_to(self, place: int, step: int) -> None:
        self._place, self._step = place, step
        self._view.show_message(place)
        self._view.messages.show_words(place)
        self._nth = 0 if step > 0 else self._counts()[place] - 1
        self._seek()

    def _seek(self) -> None:
        """Show the current match; try again later while it is not drawn yet."""
        self._again.stop()
        place = self._place
        if place is None:
            return
        matches, shown = self._matches(), self._view.messages
        drawn = shown.is_drawn(place)
        if self._nth >= len(matches) and (not drawn or shown.show_more(place)):
            self._again.start()
        elif drawn and not shown.has_more(place):
            self._drawn[place] = max(1, len(matches))
        counts = self._counts()
        if self._nth >= counts.get(place, 1):
            # Fewer are drawn than were counted in the source.
            if self._step > 0:
                self._go_to(self._next_place(list(counts), 1), 1)
                return
            self._nth = counts[place] - 1
        self._mark(matches)
        before = sum(count for at, count in counts.items() if at < place)
        total = format_count(sum(counts.values()))
        if MOST_MATCHES in counts.values():
            total += "+"
        number = format_count(before + self._nth + 1)
        self._count.setText(tr("{number} of {total}").format(number=number, total=total))

    def _next_place(self, places: list[int], step: int) -> int:
        at = places.index(self._place) + step if self._place in places else 0
        return places[at % len(places)]

    def _counts(self) -> dict[int, int]:
        wanted = self._field.text().casefold()
        counts: dict[int, int] = {}
        for at, row in enumerate(self._transcript.rows if wanted else ()):
            count = min(MOST_MATCHES, row.text.casefold().count(wanted))
            if count:
                counts[at] = count if row.live else self._drawn.get(at, count)
        return counts

    def _matches(self) -> list[Match]:
        found: list[Match] = []
        fields = self._view.messages.fields_at(self._place) if self._place is not None else []
        for field in fields:
            cursor = field.document().find(self._field.text(), 0)
            while not cursor.isNull() and len(found) < MOST_MATCHES:
                found.append((field, cursor))
                cursor = field.document().find(self._field.text(), cursor)
        return found

    def _mark(self, matches: list[Match]) -> None:
        """Mark all matches of the message, and scroll to the current one."""
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
        if self._nth < len(matches):
            self._view.show_part(*matches[self._nth])

    def _unmark(self) -> None:
        for field in self._marked:
            if shiboken6.isValid(field):
                field.setExtraSelections([])
        self._marked = []

    def _forget(self) -> None:
        self._unmark()
        self._again.stop()
        self._place, self._nth, self._drawn = None, 0, {}
        self._count.setText("")

    def _say_nothing(self) -> None:
        self._count.setText(tr("No match") if self._field.text() else "")

    def _build(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 4, 4, 4)
        row.addWidget(self._field, 1)
        row.addWidget(self._count)
        for icon, says, name, act in (
            (
                "chevron_left",
                tr("Previous match (Shift+Enter)"),
                "findBefore",
                lambda: self.step(-1),
            ),
            ("chevron_right", tr("Next match (Enter)"), "findNext", lambda: self.step(1)),
            ("close", tr("Close (Esc)"), "findClose", self.leave),
        ):
            button = IconButton(icon, says, name=name)
            button.clicked.connect(act)
            row.addWidget(button)
