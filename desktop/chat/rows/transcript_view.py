"""The scrolling view of the shown chat's messages."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QMouseEvent, QResizeEvent, QTextCursor
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QFrame, QPlainTextEdit, QWidget

from desktop.chat.data.formats import Formats
from desktop.chat.drafts import Drafts
from desktop.chat.markdown.text_selection import TextField, text_selection
from desktop.chat.rows.row_widgets import RowPlaces, RowWidget, RowWidgets
from desktop.chat.rows.user_row import UserRow
from desktop.chat.transcript import Row, Transcript
from desktop.i18n import tr
from desktop.widgets.layouts import column_width
from desktop.widgets.pacing import pace
from desktop.widgets.plain import Button, named

# A message costs milliseconds to build: so many are built at once, the others one at a step.
BUILT_AT_ONCE = 4
# Nearer than this to the end counts as being there.
END_PX = 24
ENDS_PX = 16
GAP_PX = 4
STEP_PX = 20
# A guess at a message's height: its frame, and its letters, of which a line holds about a hundred.
FRAME_PX = 90
LETTER_PX = 0.22
LONGEST_GUESS_PX = 20_000


class TranscriptView(QAbstractScrollArea):
    """Follows the end while the reader is there.

    Only messages near the visible part have widgets, so long chats cost as much as short ones;
    others have a known or guessed height.
    """

    def __init__(self, transcript: Transcript, drafts: Drafts, formats: Formats) -> None:
        super().__init__()
        named(self, "transcript", tr("Conversation"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setObjectName("transcriptContent")
        self.viewport().setAutoFillBackground(False)
        self.verticalScrollBar().setSingleStep(STEP_PX)
        self.messages = RowWidgets(self.viewport(), drafts, formats)
        self._transcript = transcript
        self._places = RowPlaces(GAP_PX)
        self._arranging = False
        self.follows = True
        # The version that the user has turned to, by its id, while it is not on screen yet.
        self._turning: int | None = None
        # The message turned to, and the scroll range kept for it: a version that is shorter, or not
        # drawn yet, leaves the view where it is.
        self._turned = 0
        self._kept_range = 0
        jump = tr("Jump to the end")
        self._jump = Button(jump, self, name="jumpToNewest", spoken=jump)
        self._jump.clicked.connect(self.scroll_to_end)
        self._jump.hide()
        self.verticalScrollBar().valueChanged.connect(self._on_scroll)
        self.messages.go_on_asked.connect(self.scroll_to_end)
        self.messages.choose_asked.connect(self._expect_version)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus)
        transcript.chat_changed.connect(self._rebuild)
        transcript.rows_replaced.connect(self._replace_from)
        transcript.row_changed.connect(self._show_row)
        self._rebuild()

    @property
    def row_widgets(self) -> list[RowWidget]:
        return [widget for _, widget in self.messages]

    @property
    def first_seen(self) -> int:
        return self._seen(0).start

    def show_message(self, place: int) -> None:
        self._build(place)
        self.follows = False
        self._arrange((place, 0))

    def show_part(self, field: TextField, cursor: QTextCursor) -> None:
        """Scroll it to the middle."""
        if field.verticalScrollBar().maximum() > 0:
            start = QTextCursor(cursor)
            start.clearSelection()
            field.setTextCursor(start)
            field.ensureCursorVisible()
            if isinstance(field, QPlainTextEdit):
                field.centerCursor()
        middle = field.viewport().mapTo(self.viewport(), field.cursorRect(cursor).center()).y()
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + middle - self.viewport().height() // 2)

    def edit_last(self) -> None:
        rows = self._transcript.rows
        place = next(
            (at for at in reversed(range(len(rows))) if not rows[at].message.is_reply), None
        )
        if place is not None:
            self.scroll_to_end()
            row = self._build(place)
            assert isinstance(row, UserRow)
            row.edit()

    def turn_last(self, step: int) -> None:
        # Of the last message that has several versions.
        rows = reversed(self._transcript.rows)
        row = next((each for each in rows if len(each.message.siblings) > 1), None)
        version = row.sibling(step) if row is not None else None
        if version is not None:
            self.messages.choose_asked.emit(version)

    def scroll_to_end(self) -> None:
        self.follows, self._kept_range = True, 0
        self._arrange()

    def _rebuild(self) -> None:
        self._turning = None
        self._replace_from(0)
        self.messages.forget_unfolded()

    def _expect_version(self, message: int) -> None:
        self._turning = message

    def _replace_from(self, place: int) -> None:
        anchor, turned, self._turning = self._anchor(), self._turning, None
        self.messages.take_down_from(place)
        rows = self._transcript.rows
        self._places.replace_from(place, [_guess(row) for row in rows[place:]])
        if place < len(rows) and rows[place].id == turned:
            self.follows = False
            self._turned, self._kept_range = place, self.verticalScrollBar().value()
            for fresh in range(place, min(len(rows), place + BUILT_AT_ONCE)):
                self._build(fresh)
            self._arrange(anchor if anchor[0] <= place else (place, 0))
            return
        # The user's newest request is at the end.
        self.follows, self._kept_range = True, 0
        for fresh in range(max(place, len(rows) - BUILT_AT_ONCE), len(rows)):
            self._build(fresh)
        self._arrange()

    def _build_near(self) -> bool:
        seen, near = self._seen(0), self._seen(self.viewport().height())
        missing = [place for place in near if place not in self.messages]
        if not missing:
            # Wide enough that scrolling back and forth makes nothing again.
            self.messages.take_down_beyond(range(near.start - len(near), near.stop + len(near)))
            return False
        middle = (seen.start + seen.stop) // 2
        anchor = self._anchor()
        # Visible messages first, then the nearest.
        self._build(min(missing, key=lambda place: (place not in seen, abs(place - middle))))
        self._arrange(anchor)
        return len(missing) > 1

    def _build(self, place: int) -> RowWidget:
        row, height = self._transcript.rows[place], self._places.height(place)
        return self.messages.at(place) or self.messages.make(place, row, self._width(), height)

    def _show_row(self, place: int) -> None:
        widget = self.messages.at(place)
        if widget is not None:
            widget.show_row(self._transcript.rows[place])

    def _on_focus(self, before: QWidget | None, now: QWidget | None) -> None:
        for row in self.row_widgets:
            if any(each is not None and row.isAncestorOf(each) for each in (before, now)):
                row.notice()

    def _arrange(self, anchor: tuple[int, int] | None = None) -> None:
        """Keep what the reader looks at in place."""
        if self._arranging:
            return
        self._arranging = True
        try:
            self._lay_out(*(anchor or self._anchor()))
        finally:
            self._arranging = False
        pace().go_on(self._build_near)

    def _lay_out(self, looked_at: int, offset: int) -> None:
        bar = self.verticalScrollBar()
        for place, widget in self.messages:
            self._places.set_height(place, _height(widget, self._width()))
        height = self.viewport().height()
        end = max(0, self._places.total() + 2 * ENDS_PX - height)
        self._keep_range(end)
        end = max(end, self._kept_range)
        bar.setRange(0, end)
        bar.setPageStep(height)
        if self.follows:
            bar.setValue(end)
        elif len(self._places):
            bar.setValue(ENDS_PX + self._places.top(looked_at) + offset)
            self.follows = not self._kept_range and bar.value() >= end - END_PX
        for place, widget in self.messages:
            self._put(place, widget)
        self._offer_jump()

    def _keep_range(self, end: int) -> None:
        """Keep the scroll range until the version turned to is drawn."""
        widget = self.messages.at(self._turned) if self._kept_range else None
        if widget is not None and not widget.is_drawn():
            return
        if widget is not None:
            height = self._places.height(self._turned)
            # All of it stays in view, or as much as fills half of the view.
            unseen = height - min(height, self.viewport().height() // 2)
            most = ENDS_PX + self._places.top(self._turned) + unseen
            self._kept_range = min(self._kept_range, max(end, most))
        if widget is None or self._kept_range <= end:
            self._kept_range = 0

    def _offer_jump(self) -> None:
        self._jump.setVisible(not self.follows)
        size, room = self._jump.sizeHint(), self.viewport().geometry()
        left = room.center().x() - size.width() // 2
        self._jump.setGeometry(
            left, room.bottom() - size.height() - ENDS_PX, size.width(), size.height()
        )
        self._jump.raise_()

    def _anchor(self) -> tuple[int, int]:
        seen = self._seen(0)
        if not seen:
            return 0, 0
        place = next((each for each in seen if each in self.messages), seen.start)
        return place, self.verticalScrollBar().value() - ENDS_PX - self._places.top(place)

    def _put(self, place: int, widget: RowWidget) -> None:
        # Centred in the whole view, so that neither the scroll bar nor the frame moves text.
        frame = self.viewport().pos()
        left = (self.width() - self._width()) // 2 - frame.x()
        top = ENDS_PX + self._places.top(place) - self.verticalScrollBar().value() - frame.y()
        widget.setGeometry(left, top, self._width(), self._places.height(place))

    def _width(self) -> int:
        return column_width(self.width())

    def _seen(self, margin: int) -> range:
        top = self.verticalScrollBar().value() - ENDS_PX
        return self._places.between(top - margin, top + self.viewport().height() + margin)

    def _on_scroll(self, value: int) -> None:
        if not self._arranging:
            self._kept_range = min(self._kept_range, value)
            at_end = value >= self.verticalScrollBar().maximum() - END_PX
            self.follows = at_end and not self._kept_range
            self._offer_jump()
            pace().go_on(self._build_near)

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        if not self._arranging:
            self.viewport().scroll(0, dy)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def viewportEvent(self, event: QEvent) -> bool:
        # The height of a message has changed.
        if event.type() == QEvent.Type.LayoutRequest:
            self._arrange()
        elif isinstance(event, QMouseEvent) and _is_click(event):
            # Between the messages, or on a part of one that isn't text.
            text_selection().clear()
        return super().viewportEvent(event)

    def show_whole(self, widget: QWidget) -> None:
        """Scroll as little as needed."""
        top = widget.mapTo(self.viewport(), QPoint(0, 0)).y()
        below = top + widget.height() - self.viewport().height()
        bar = self.verticalScrollBar()
        if top < 0:
            bar.setValue(bar.value() + top)
        elif below > 0:
            bar.setValue(bar.value() + min(top, below))


def _is_click(event: QMouseEvent) -> bool:
    is_press = event.type() == QEvent.Type.MouseButtonPress
    return is_press and event.button() == Qt.MouseButton.LeftButton


def _height(widget: RowWidget, width: int) -> int:
    if widget.hasHeightForWidth():
        return widget.heightForWidth(width)
    return widget.sizeHint().height()


def _guess(row: Row) -> int:
    return int(min(LONGEST_GUESS_PX, FRAME_PX + LETTER_PX * len(row.text)))
