"""The messages of the shown chat, one widget each; follows the end only while the reader is there.

A long chat is built from its newest messages; older ones come when the reader scrolls up to them.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from desktop.item_models.messages import Row
from desktop.item_models.transcript import Transcript
from desktop.views.reply_row import ReplyRow
from desktop.views.user_row import UserRow

# A message costs milliseconds to build: few are built at once, so that no frame waits for long.
BUILT_AT_FIRST = 12
BUILT_IN_A_STEP = 4
BUILT_AHEAD = 60
# Nearer than this to the end counts as being there.
END_PX = 24
NEAR_TOP_PX = 400
WIDEST_PX = 860

RowWidget = UserRow | ReplyRow


class TranscriptView(QScrollArea):
    """Follows a Transcript.

    Signals:
        edit_asked(int, str), regenerate_asked(int), go_on_asked(int), choose_asked(int),
            fork_asked(int): what the user wants of a message, by its id.
        tell_all_asked(): have the model read all messages again.
        open_picture_asked(str), link_asked(str): a picture or a link was activated.
    """

    edit_asked = Signal(int, str)
    regenerate_asked = Signal(int)
    go_on_asked = Signal(int)
    choose_asked = Signal(int)
    fork_asked = Signal(int)
    tell_all_asked = Signal()
    open_picture_asked = Signal(str)
    link_asked = Signal(str)

    def __init__(self, transcript: Transcript) -> None:
        super().__init__()
        self.setObjectName("transcript")
        self.setAccessibleName("Conversation")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._transcript = transcript
        self._first = 0
        self.row_widgets: list[RowWidget] = []
        self._column = self._make_column()
        self.follows = True
        # Distance from the end to keep while rows are put in above, or None.
        self._anchor: int | None = None
        self._release = QTimer(self)
        self._release.setSingleShot(True)
        self._release.setInterval(250)
        self._release.timeout.connect(self._release_anchor)
        # The place from which on all messages are to have widgets; `_step` works towards it.
        self._wanted_first = 0
        self._step = QTimer(self)
        self._step.setInterval(0)
        self._step.timeout.connect(self._add_older)
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._on_scroll)
        bar.rangeChanged.connect(self._on_range)
        transcript.chat_changed.connect(self._rebuild)
        transcript.rows_replaced.connect(self._replace_from)
        transcript.row_changed.connect(self._show_row)
        transcript.grown.connect(self._grow)
        self._rebuild()

    @property
    def first_built(self) -> int:
        """The place of the oldest message that has a widget."""
        return self._first

    def scroll_to_end(self) -> None:
        self.follows = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

    def _make_column(self) -> QVBoxLayout:
        content = QWidget()
        content.setObjectName("transcriptContent")
        middle = QWidget()
        middle.setMaximumWidth(WIDEST_PX)
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addStretch(1)
        row = QHBoxLayout(content)
        row.setContentsMargins(24, 16, 24, 16)
        row.addStretch(1)
        row.addWidget(middle, 100)
        row.addStretch(1)
        self.setWidget(content)
        return column

    def _rebuild(self) -> None:
        self._remove_from(0)
        count = len(self._transcript.rows)
        self._first = max(0, count - BUILT_AT_FIRST)
        self._build_from(self._first)
        self._build_back_to(count - BUILT_AHEAD)
        self.scroll_to_end()

    def _build_back_to(self, place: int) -> None:
        self._wanted_first = max(0, place)
        if self._first > self._wanted_first:
            self._step.start()

    def _replace_from(self, place: int) -> None:
        if place <= self._first:
            self._rebuild()
            return
        self._remove_from(place - self._first)
        self._build_from(place)
        # What the user has just asked for is at the end.
        self.scroll_to_end()

    def _build_from(self, place: int) -> None:
        for row in self._transcript.rows[place:]:
            widget = self._make_row(row)
            self.row_widgets.append(widget)
            # The last item of the column is the stretch.
            self._column.insertWidget(self._column.count() - 1, widget)

    def _remove_from(self, index: int) -> None:
        for widget in self.row_widgets[index:]:
            self._column.removeWidget(widget)
            widget.hide()
            widget.deleteLater()
        del self.row_widgets[index:]

    def _add_older(self) -> None:
        """Build some messages above; what the reader looks at stays in its place."""
        before = max(self._wanted_first, self._first - BUILT_IN_A_STEP)
        bar = self.verticalScrollBar()
        self._anchor = None if self.follows else bar.maximum() - bar.value()
        for place in range(self._first - 1, before - 1, -1):
            widget = self._make_row(self._transcript.rows[place])
            self.row_widgets.insert(0, widget)
            self._column.insertWidget(0, widget)
        self._first = before
        self._release.start()
        if self._first <= self._wanted_first:
            self._step.stop()

    def _make_row(self, row: Row) -> RowWidget:
        widget = self._make_reply(row) if row.message.is_reply else self._make_user(row)
        widget.choose_asked.connect(self.choose_asked)
        widget.fork_asked.connect(self.fork_asked)
        return widget

    def _make_reply(self, row: Row) -> ReplyRow:
        reply = ReplyRow(row)
        reply.regenerate_asked.connect(self.regenerate_asked)
        reply.go_on_asked.connect(self.go_on_asked)
        reply.link_asked.connect(self.link_asked)
        return reply

    def _make_user(self, row: Row) -> UserRow:
        user = UserRow(row)
        user.edit_asked.connect(self.edit_asked)
        user.tell_all_asked.connect(self.tell_all_asked)
        user.open_picture_asked.connect(self.open_picture_asked)
        return user

    def _show_row(self, place: int) -> None:
        if place >= self._first:
            self.row_widgets[place - self._first].show_row(self._transcript.rows[place])

    def _grow(self, place: int) -> None:
        widget = self.row_widgets[place - self._first] if place >= self._first else None
        if isinstance(widget, ReplyRow):
            widget.grow()

    def _on_scroll(self, value: int) -> None:
        maximum = self.verticalScrollBar().maximum()
        self.follows = value >= maximum - END_PX
        if self._anchor is not None:
            self._anchor = maximum - value
        # While it follows the end, a low value only means that the rows are not laid out yet.
        if value < NEAR_TOP_PX and not self.follows and not self._step.isActive():
            self._build_back_to(self._first - BUILT_AHEAD)

    def _on_range(self, _minimum: int, maximum: int) -> None:
        if self._anchor is not None:
            self._release.start()
            self.verticalScrollBar().setValue(maximum - self._anchor)
        elif self.follows:
            self.verticalScrollBar().setValue(maximum)

    def _release_anchor(self) -> None:
        self._anchor = None
