"""The row widgets of the transcript, and where rows are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from PySide6.QtWidgets import QWidget

from desktop.chat.data.formats import Formats
from desktop.chat.drafts import Drafts
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.rows.reply_row import ReplyRow, Unfolded
from desktop.chat.rows.row_actions import RowActions
from desktop.chat.rows.user_row import UserRow
from desktop.chat.transcript import Row
from desktop.widgets.pacing import pace


class RowPlaces:
    """Row heights, known or guessed, with `gap` between."""

    def __init__(self, gap: int) -> None:
        self._gap = gap
        self._heights: list[int] = []
        # The upper edge of each row and of a next one; None after a change.
        self._tops: list[int] | None = None

    def __len__(self) -> int:
        return len(self._heights)

    def replace_from(self, place: int, heights: Sequence[int]) -> None:
        self._heights[place:] = heights
        self._tops = None

    def set_height(self, place: int, height: int) -> None:
        if self._heights[place] != height:
            self._heights[place] = height
            self._tops = None

    def height(self, place: int) -> int:
        return self._heights[place]

    def top(self, place: int) -> int:
        return self._all_tops()[place]

    def total(self) -> int:
        return max(0, self._all_tops()[-1] - self._gap)

    def at(self, y: int) -> int:
        """Includes the gap below a row; there must be rows."""
        return min(max(0, bisect_right(self._all_tops(), y) - 1), len(self._heights) - 1)

    def between(self, top: int, bottom: int) -> range:
        if not self._heights:
            return range(0)
        return range(self.at(top), self.at(bottom) + 1)

    def _all_tops(self) -> list[int]:
        if self._tops is None:
            steps = (height + self._gap for height in self._heights)
            self._tops = list(accumulate(steps, initial=0))
        return self._tops


RowWidget = UserRow | ReplyRow
# How many blocks of a row that has left the transcript are deleted at a step.
SHED_AT_ONCE = 16


class RowWidgets(RowActions):
    """Makes rows one at a time and deletes them in steps; keys are places."""

    def __init__(self, viewport: QWidget, drafts: Drafts, formats: Formats) -> None:
        super().__init__(viewport)
        self._formats = formats
        self._formatted = True
        self._viewport = viewport
        self._drafts = drafts
        self._by_place: dict[int, RowWidget] = {}
        # Parts that the user opened in messages without widgets, by id.
        self._unfolded: dict[int, Unfolded] = {}
        # Hidden, and deleted when there is time.
        self._leaving: list[RowWidget] = []

    def __contains__(self, place: int) -> bool:
        return place in self._by_place

    def __iter__(self) -> Iterator[tuple[int, RowWidget]]:
        return iter(sorted(self._by_place.items()))

    def at(self, place: int) -> RowWidget | None:
        return self._by_place.get(place)

    def make(self, place: int, row: Row, width: int, height: int) -> RowWidget:
        widget = (
            ReplyRow(row, self._formats, self, self._drafts)
            if row.message.is_reply
            else UserRow(row, self._drafts, self, self._formatted)
        )
        if isinstance(widget, ReplyRow) and row.id in self._unfolded:
            widget.unfold(self._unfolded.pop(row.id))
        widget.setParent(self._viewport)
        widget.resize(width, height)
        # Screen readers read the children of a widget in their order.
        later = [each for each in self._by_place if each > place]
        if later:
            widget.stackUnder(self._by_place[min(later)])
        self._by_place[place] = widget
        widget.show()
        return widget

    def take_down_from(self, place: int) -> None:
        for each in [each for each in self._by_place if each >= place]:
            self._take_down(each)

    def take_down_beyond(self, kept: range) -> None:
        for place, widget in list(self._by_place.items()):
            if place not in kept and not widget.is_busy():
                self._take_down(place)

    def forget_unfolded(self) -> None:
        self._unfolded.clear()

    def show_formatted(self, formatted: bool) -> None:
        if formatted != self._formatted:
            self._formatted = formatted
            for _, row in self:
                if isinstance(row, UserRow):
                    row.show_formatted(formatted)

    def _take_down(self, place: int) -> None:
        widget = self._by_place.pop(place)
        if isinstance(widget, ReplyRow):
            self._unfolded[widget.row.id] = widget.unfolded()
            widget.leave()
        widget.hide()
        self._leaving.append(widget)
        pace().go_on(self._take_apart)

    def _take_apart(self) -> bool:
        bodies = self._leaving[0].findChildren(MarkdownBody) if self._leaving else []
        if self._leaving and not any(body.shed(SHED_AT_ONCE) for body in bodies):
            self._leaving.pop(0).deleteLater()
        return bool(self._leaving)
