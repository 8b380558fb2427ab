"""The messages of the shown chat that have widgets: made one at a time, taken apart in steps.

Which of them are made, and where they stand, is `transcript_view`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QObject, QPoint, Signal
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QTextEdit, QWidget

from desktop.chat.edits import Edits
from desktop.chat.formats import Formats
from desktop.chat.markdown.text_selection import TextField
from desktop.chat.messages import Row
from desktop.chat.reply_row import ReplyRow
from desktop.chat.user_row import UserRow
from desktop.widgets.long_text import LongText
from desktop.widgets.pacing import pace

RowWidget = UserRow | ReplyRow


class RowWidgets(QObject):
    """Widgets by the places of their messages.

    Signals:
        edit_asked(int, str), regenerate_asked(int), go_on_asked(int), choose_asked(int),
            fork_asked(int): what the user wants of a message, by its id.
        tell_all_asked(): have the model read all messages again.
        choose_pictures_asked(object): pictures are to be chosen; called with their paths.
        open_picture_asked(str), link_asked(str): a picture or a link was activated.
    """

    edit_asked = Signal(int, str)
    regenerate_asked = Signal(int)
    go_on_asked = Signal(int)
    choose_asked = Signal(int)
    fork_asked = Signal(int)
    tell_all_asked = Signal()
    choose_pictures_asked = Signal(object)
    open_picture_asked = Signal(str)
    link_asked = Signal(str)

    def __init__(self, viewport: QWidget, edits: Edits, formats: Formats) -> None:
        super().__init__(viewport)
        self._formats = formats
        self._formatted = True
        self._viewport = viewport
        self._edits = edits
        self._by_place: dict[int, RowWidget] = {}
        # What was unfolded in messages that have no widgets any more, by their ids.
        self._unfolded: dict[int, object] = {}
        # Not shown any more, and taken apart when there is time.
        self._leaving: list[RowWidget] = []

    def __contains__(self, place: int) -> bool:
        return place in self._by_place

    def __iter__(self) -> Iterator[tuple[int, RowWidget]]:
        """Places with their widgets, from the first message to the last."""
        return iter(sorted(self._by_place.items()))

    def at(self, place: int) -> RowWidget | None:
        """What shows the message at this place."""
        return self._by_place.get(place)

    def make(self, place: int, row: Row, width: int, height: int) -> RowWidget:
        """Give a message that has none a widget of this size."""
        widget = self._reply(row) if row.message.is_reply else self._user(row)
        widget.choose_asked.connect(self.choose_asked)
        widget.fork_asked.connect(self.fork_asked)
        widget.unfold(self._unfolded.pop(row.id, None))
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
        """The messages from this one on are gone, or others."""
        for each in [each for each in self._by_place if each >= place]:
            self._take_down(each)

    def take_down_beyond(self, kept: range) -> None:
        """Keep these, and what the user is at work in."""
        for place, widget in list(self._by_place.items()):
            if place not in kept and not widget.is_busy():
                self._take_down(place)

    def forget_unfolded(self) -> None:
        """Another chat is shown."""
        self._unfolded.clear()

    def show_formatted(self, formatted: bool) -> None:
        """Render Markdown in the user's messages, or show them as they were typed."""
        if formatted != self._formatted:
            self._formatted = formatted
            for _, row in self:
                if isinstance(row, UserRow):
                    row.show_formatted(formatted)

    def show_words(self, place: int) -> None:
        """Have a message show its words as they were written, where it shows them otherwise."""
        row = self._by_place.get(place)
        if isinstance(row, ReplyRow):
            row.show_words()

    def is_drawn(self, place: int) -> bool:
        """True if all of a message is drawn that will be until more is asked for."""
        row = self._by_place.get(place)
        if row is None:
            return True
        return row.is_drawn() and all(each.is_complete() for each in row.findChildren(LongText))

    def has_more(self, place: int) -> bool:
        """True if only a part of a message is drawn."""
        return self._more_button(place) is not None

    def show_more(self, place: int) -> bool:
        """Have more of a message drawn; says whether there is more."""
        button = self._more_button(place)
        if button is not None:
            button.click()
        return button is not None

    def _more_button(self, place: int) -> QPushButton | None:
        row = self._by_place.get(place)
        if row is None:
            return None
        found = row.findChild(QPushButton, "showMore")
        return found if isinstance(found, QPushButton) and found.isVisibleTo(row) else None

    def fields_at(self, place: int) -> list[TextField]:
        """What shows the words of a message, from above to below."""
        row = self._by_place.get(place)
        if row is None:
            return []
        found: list[TextField] = [
            *row.findChildren(QTextEdit),
            *row.findChildren(QPlainTextEdit),
        ]
        seen = [each for each in found if each.isVisibleTo(row)]
        return sorted(seen, key=lambda each: each.mapTo(row, QPoint(0, 0)).y())

    def _reply(self, row: Row) -> ReplyRow:
        reply = ReplyRow(row, self._formats)
        reply.regenerate_asked.connect(self.regenerate_asked)
        reply.go_on_asked.connect(self.go_on_asked)
        reply.link_asked.connect(self.link_asked)
        return reply

    def _user(self, row: Row) -> UserRow:
        user = UserRow(row, self._edits, self._formatted)
        user.link_asked.connect(self.link_asked)
        user.choose_pictures_asked.connect(self.choose_pictures_asked)
        user.edit_asked.connect(self.edit_asked)
        user.tell_all_asked.connect(self.tell_all_asked)
        user.open_picture_asked.connect(self.open_picture_asked)
        return user

    def _take_down(self, place: int) -> None:
        widget = self._by_place.pop(place)
        unfolded = widget.unfolded()
        if unfolded is not None:
            self._unfolded[widget.row.id] = unfolded
        widget.hide()
        self._leaving.append(widget)
        pace().go_on(self._take_apart)

    def _take_apart(self) -> bool:
        """Give up some of what a message that is not shown any more consists of."""
        if self._leaving and not self._leaving[0].shed():
            self._leaving.pop(0).deleteLater()
        return bool(self._leaving)
