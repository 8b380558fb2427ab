"""Find in the shown chat."""

from __future__ import annotations

import shiboken6
from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeyEvent, QTextCursor
from PySide6.QtWidgets import QLineEdit, QTextEdit

from desktop import theme
from desktop.chat.markdown.text_selection import TextField, fields_in
from desktop.chat.rows.reply_row import ReplyRow
from desktop.chat.rows.row_widgets import RowWidget
from desktop.chat.rows.transcript_view import TranscriptView
from desktop.chat.transcript import Transcript
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.icon_button import IconButton
from desktop.widgets.layouts import Frame
from desktop.widgets.layouts import row as row_of
from desktop.widgets.long_text import LongText
from desktop.widgets.plain import Label, named

# Looking through a long chat at every key would be felt.
LOOKED_AFTER_MS = 120
LONGEST = 200
# Counted and marked in one message.
MOST_MATCHES = 500
# A long message is drawn in steps: how often to look for the match that is wanted.
LOOKED_AGAIN_MS = 30

Match = tuple[TextField, QTextCursor]


class FindBar(Frame):
    """Counts matches in the source until a message is drawn. A match that isn't drawn, as in a
    link's address, isn't marked."""

    closed = Signal()

    def __init__(self, transcript: Transcript, view: TranscriptView) -> None:
        super().__init__("findBar", "panel")
        self._transcript = transcript
        self._view = view
        self._place: int | None = None
        self._nth = 0
        self._step = 1
        # Matches of messages that were visited, as they are drawn.
        self._drawn: dict[int, int] = {}
        self._marked: list[TextField] = []
        self._field = QLineEdit()
        self._field.installEventFilter(self)
        named(self._field, "findText", tr("Find in this chat"))
        self._field.setPlaceholderText(tr("Find in this chat"))
        self._field.setMaxLength(LONGEST)
        self._count = Label(name="findCount", style="muted small")
        self._later = QTimer(self, singleShot=True, interval=LOOKED_AFTER_MS)
        self._later.timeout.connect(self._look)
        self._again = QTimer(self, singleShot=True, interval=LOOKED_AGAIN_MS)
        self._again.timeout.connect(self._seek)
        self._field.textChanged.connect(self._later.start)
        transcript.chat_changed.connect(self._forget)
        transcript.rows_replaced.connect(self._forget)
        self._build()
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not isinstance(event, QKeyEvent):
            return False
        is_press = event.type() == QEvent.Type.KeyPress
        if event.key() == Qt.Key.Key_Escape:
            # Otherwise the window's Esc, which stops a reply, would take it.
            event.accept()
            if is_press:
                self.leave()
            return True
        if is_press and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.step(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
            return True
        return False

    def begin(self) -> None:
        self.show()
        self._field.setFocus()
        self._field.selectAll()

    def look_for(self, words: str, place: int) -> None:
        """Show the message's first match, else the message."""
        self.begin()
        self._field.setText(words)
        self._later.stop()
        self._forget()
        if place in self._counts():
            self._go_to(place, 1)
        else:
            self._view.show_message(place)
            self._say_nothing()

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
        row = self._view.messages.at(place)
        if isinstance(row, ReplyRow):
            row.show_source()
        self._nth = 0 if step > 0 else self._counts()[place] - 1
        self._seek()

    def _seek(self) -> None:
        """Show the current match once it is drawn."""
        self._again.stop()
        place = self._place
        if place is None:
            return
        matches, row = self._matches(), self._view.messages.at(place)
        drawn = row is None or _is_drawn(row)
        more = row.more_button() if row is not None and drawn else None
        if self._nth >= len(matches) and (more is not None or not drawn):
            if more is not None:
                more.click()
            self._again.start()
        elif drawn and more is None:
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
        for at, shown in enumerate(self._transcript.rows if wanted else ()):
            count = min(MOST_MATCHES, shown.text.casefold().count(wanted))
            if count:
                counts[at] = count if shown.live else self._drawn.get(at, count)
        return counts

    def _matches(self) -> list[Match]:
        found: list[Match] = []
        row = self._view.messages.at(self._place) if self._place is not None else None
        for field in fields_in(row) if row is not None else ():
            cursor = field.document().find(self._field.text(), 0)
            while not cursor.isNull() and len(found) < MOST_MATCHES:
                found.append((field, cursor))
                cursor = field.document().find(self._field.text(), cursor)
        return found

    def _mark(self, matches: list[Match]) -> None:
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
        previous = tr("Previous match (Shift+Enter)")
        before = IconButton("chevron_left", previous, name="findBefore")
        after = IconButton("chevron_right", tr("Next match (Enter)"), name="findNext")
        close = IconButton("close", tr("Close (Esc)"), name="findClose")
        before.clicked.connect(lambda: self.step(-1))
        after.clicked.connect(lambda: self.step(1))
        close.clicked.connect(self.leave)
        parts = (self._field, self._count, before, after, close)
        row_of(*parts, of=self, margins=(8, 4, 4, 4)).setStretchFactor(self._field, 1)


def _is_drawn(row: RowWidget) -> bool:
    return row.is_drawn() and all(each.is_complete() for each in row.findChildren(LongText))
