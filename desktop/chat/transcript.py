"""The shown path of the shown chat, row by row, and the signals a view follows it by.

Holds rows; never asks the store or the engine for anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from core.api.stats import RequestStats
from desktop.chat.messages import Row


class Transcript(QObject):
    """Rows in order.

    Signals:
        chat_changed: another chat (or none) is shown; all rows are new.
        rows_replaced(int): rows from this one on are gone or new.
        row_changed(int): the row at this place is another state of the same message.
        grown(int): the live reply of the row at this place has more text.
    """

    chat_changed = Signal()
    rows_replaced = Signal(int)
    row_changed = Signal(int)
    grown = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.chat: int | None = None
        self.rows: list[Row] = []

    def show(self, chat: int | None, rows: Sequence[Row]) -> None:
        """Show a chat; rows that stay where they are, stay as they are."""
        if chat != self.chat:
            self.chat, self.rows = chat, list(rows)
            self.chat_changed.emit()
            return
        kept = _common(self.rows, rows)
        for place in range(kept):
            if self.rows[place] != rows[place]:
                self.rows[place] = rows[place]
                self.row_changed.emit(place)
        if kept < max(len(self.rows), len(rows)):
            self.rows = list(rows)
            self.rows_replaced.emit(kept)

    def grow(self, message: int) -> None:
        """Say that the live reply of a message has more text, if it is shown."""
        place = self.place_of(message)
        if place is not None:
            self.grown.emit(place)

    def update(self, row: Row) -> None:
        """Put another state of a message in its place, if it is shown."""
        place = self.place_of(row.id)
        if place is not None:
            self.rows[place] = row
            self.row_changed.emit(place)

    def place_of(self, message: int) -> int | None:
        # What changes is nearly always at the end.
        for place in range(len(self.rows) - 1, -1, -1):
            if self.rows[place].id == message:
                return place
        return None

    def row_of(self, message: int) -> Row | None:
        place = self.place_of(message)
        return None if place is None else self.rows[place]

    def last_answered(self) -> tuple[Row, RequestStats] | None:
        """The newest reply on the path that has numbers, and these."""
        for row in reversed(self.rows):
            stats = row.live.stats if row.live else row.message.reply and row.message.reply.stats
            if stats:
                return row, stats
        return None


def _common(old: Sequence[Row], new: Sequence[Row]) -> int:
    """How many rows at the beginning are the same messages."""
    for place, (before, after) in enumerate(zip(old, new, strict=False)):
        if before.id != after.id:
            return place
    return min(len(old), len(new))
