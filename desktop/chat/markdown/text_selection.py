"""One selection over all text fields of a message, held by their cursors."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

import shiboken6
from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer
from PySide6.QtGui import (
    QContextMenuEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QApplication,
    QFrame,
    QMenu,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from desktop.i18n import tr
from desktop.widgets.plain import action

TextField = QTextEdit | QPlainTextEdit
W = TypeVar("W", bound=QWidget)

# Scrolling while the pointer is above or below the page.
SCROLL_MS = 30
FASTEST_PX = 60
_MOVES = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)
_JUMPS = (Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


class WholeText(QWidget):
    """Fields that are selected together."""


class TextOwner(QFrame):
    """Adds entries to the menu of the texts in it."""

    def add_entries(self, menu: QMenu) -> None:
        pass

    def open_link(self, address: str) -> None:
        """Called with a whole http or https address."""


class TextSelection(QObject):
    """Mouse, keys and context menu of read-only texts."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: QWidget | None = None
        # The field in which the mouse was pressed; its cursor's anchor is the selection's.
        self._first: TextField | None = None
        self._pointer = QPoint()
        self._scrolling = QTimer(self, interval=SCROLL_MS)
        self._scrolling.timeout.connect(self._scroll)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus)

    def watch(self, field: TextField) -> None:
        field.setReadOnly(True)
        field.setUndoRedoEnabled(False)
        field.setFrameShape(QFrame.Shape.NoFrame)
        field.viewport().setAutoFillBackground(False)
        field.installEventFilter(self)
        field.viewport().installEventFilter(self)

    def text(self) -> str:
        """An empty line separates fields."""
        parts = [each.createMimeDataFromSelection().text() for each in self._selected()]
        return "\n\n".join(part for part in parts if part)

    def copy(self) -> None:
        text = self.text()
        if text:
            QGuiApplication.clipboard().setText(text)

    def clear(self) -> None:
        self._clear_but(None)
        self._whole = self._first = None

    def is_in(self, widget: QWidget) -> bool:
        whole = self._valid_whole()
        return whole is not None and widget.isAncestorOf(whole) and bool(self._selected())

    def select_all(self, field: TextField) -> None:
        self._enter(field)
        for each in self._fields():
            _select(each, 0, _length(each))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # Faster than asking Qt for the event's type.
        if not isinstance(event, QMouseEvent | QKeyEvent | QContextMenuEvent):
            return False
        field = watched if isinstance(watched, TextField) else watched.parent()
        if not isinstance(field, TextField):
            return False
        if isinstance(event, QMouseEvent):
            return self._on_mouse(field, event)
        if isinstance(event, QContextMenuEvent):
            self._open_menu(field, event)
            return True
        return event.type() == QEvent.Type.KeyPress and self._on_key(field, event)

    # Mouse.

    def _on_mouse(self, field: TextField, event: QMouseEvent) -> bool:
        """True if the field must not handle the event."""
        left = Qt.MouseButton.LeftButton
        match event.type():
            case QEvent.Type.MouseButtonPress | QEvent.Type.MouseButtonDblClick:
                return event.button() == left and self._press(field, event)
            case QEvent.Type.MouseMove if event.buttons() & left:
                self._pointer = event.globalPosition().toPoint()
                return self._drag()
            case QEvent.Type.MouseButtonRelease if event.button() == left:
                self._release()
        return False

    def _press(self, field: TextField, event: QMouseEvent) -> bool:
        extends = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if extends and self._whole is not None and _whole_of(field) is self._whole:
            self._pointer = event.globalPosition().toPoint()
            return self._drag()
        # Otherwise a press inside the selection would start a drag of the text.
        spans = len(self._selected()) > 1
        self._enter(field)
        self._clear_but(None if spans else field)
        self._first = field
        return False

    def _drag(self) -> bool:
        """False if the field can do it."""
        if self._distance() and not self._scrolling.isActive():
            self._scrolling.start()
        fields = self._fields()
        first = self._first
        if first is None or not shiboken6.isValid(first) or first not in fields:
            return False
        last, position = _place_at(fields, self._pointer)
        rect = first.viewport().rect()
        is_inside = rect.contains(first.viewport().mapFromGlobal(self._pointer))
        if last is first and is_inside and not self._distance():
            self._clear_but(first)
            return False
        self._extend(fields, first, last, position)
        return True

    def _extend(
        self, fields: list[TextField], first: TextField, last: TextField, position: int
    ) -> None:
        begin, end = fields.index(first), fields.index(last)
        down = begin < end
        for at, field in enumerate(fields):
            whole = (0, _length(field)) if down else (_length(field), 0)
            anchor = first.textCursor().anchor() if at == begin else whole[0]
            to = position if at == end else whole[1]
            if min(begin, end) <= at <= max(begin, end):
                _select(field, anchor, to)
            else:
                _select(field, 0, 0)

    def _release(self) -> None:
        self._scrolling.stop()
        clipboard = QGuiApplication.clipboard()
        if clipboard.supportsSelection() and len(self._selected()) > 1:
            clipboard.setText(self.text(), clipboard.Mode.Selection)

    # Scrolling.

    def _scroll(self) -> None:
        page, distance = self._page(), self._distance()
        if page is None or not distance:
            self._scrolling.stop()
            return
        bar = page.verticalScrollBar()
        bar.setValue(bar.value() + max(-FASTEST_PX, min(FASTEST_PX, distance)))
        self._drag()

    def _distance(self) -> int:
        """Pixels of the pointer below the page, negative above; 0 at the text's end."""
        page, whole = self._page(), self._valid_whole()
        if page is None or whole is None:
            return 0
        height = page.viewport().height()
        y = page.viewport().mapFromGlobal(self._pointer).y()
        top = whole.mapTo(page.viewport(), QPoint(0, 0)).y()
        if y < 0:
            return y if top < 0 else 0
        return y - height if y > height and top + whole.height() > height else 0

    def _page(self) -> QAbstractScrollArea | None:
        whole = self._valid_whole()
        return _ancestor(whole, QAbstractScrollArea) if whole is not None else None

    # Keyboard and menu.

    def _on_key(self, field: TextField, event: QKeyEvent) -> bool:
        if event.matches(QKeySequence.StandardKey.Copy):
            self._enter(field)
            self.copy()
            return True
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all(field)
            return True
        if event.key() in _MOVES + _JUMPS:
            self._clear_but(field)
        return False

    def _open_menu(self, field: TextField, event: QContextMenuEvent) -> None:
        self._enter(field)
        menu = QMenu(field)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        copies = action(tr("Copy"), menu, self.copy)
        copies.setEnabled(bool(self._selected()))
        menu.addAction(copies)
        link = field.anchorAt(field.viewport().mapFromGlobal(event.globalPos()))
        if link:
            clipboard = QGuiApplication.clipboard()
            menu.addAction(action(tr("Copy link"), menu, lambda: clipboard.setText(link)))
        menu.addAction(action(tr("Select all"), menu, lambda: self.select_all(field)))
        owner = owner_of(field)
        if owner is not None:
            owner.add_entries(menu)
        menu.popup(event.globalPos())

    def _on_focus(self, _before: QWidget | None, now: QWidget | None) -> None:
        whole = self._valid_whole()
        if whole is None or now is None or now.window() is not whole.window():
            return
        if not whole.isAncestorOf(now):
            self.clear()

    # Fields.

    def _enter(self, field: TextField) -> None:
        whole = _whole_of(field)
        if whole is not self._valid_whole():
            self.clear()
            self._whole = whole

    def _valid_whole(self) -> QWidget | None:
        if self._whole is not None and not shiboken6.isValid(self._whole):
            self._whole = None
        return self._whole

    def _fields(self) -> list[TextField]:
        whole = self._valid_whole()
        if whole is None or isinstance(whole, TextField):
            return [] if whole is None else [whole]
        return [each for each in fields_in(whole) if each.isReadOnly()]

    def _selected(self) -> list[TextField]:
        return [each for each in self._fields() if each.textCursor().hasSelection()]

    def _clear_but(self, field: TextField | None) -> None:
        for each in self._selected():
            if each is not field:
                _select(each, 0, 0)


@cache
def text_selection() -> TextSelection:
    return TextSelection()


def fields_in(widget: QWidget) -> list[TextField]:
    """The visible ones, from top to bottom."""
    found: list[TextField] = [*widget.findChildren(QTextEdit), *widget.findChildren(QPlainTextEdit)]
    seen = [each for each in found if each.isVisibleTo(widget)]
    return sorted(seen, key=lambda each: each.mapTo(widget, QPoint(0, 0)).y())


def owner_of(field: TextField) -> TextOwner | None:
    return _ancestor(field, TextOwner)


def _ancestor(widget: QWidget, kind: type[W]) -> W | None:
    parent = widget.parentWidget()
    while parent is not None and not isinstance(parent, kind):
        parent = parent.parentWidget()
    return parent


def _whole_of(field: TextField) -> QWidget:
    return _ancestor(field, WholeText) or field


def _length(field: TextField) -> int:
    return max(0, field.document().characterCount() - 1)


def _select(field: TextField, anchor: int, position: int) -> None:
    cursor = field.textCursor()
    if (cursor.anchor(), cursor.position()) == (anchor, position):
        return
    bars = field.horizontalScrollBar(), field.verticalScrollBar()
    values = [bar.value() for bar in bars]
    cursor.setPosition(anchor)
    cursor.setPosition(position, QTextCursor.MoveMode.KeepAnchor)
    field.setTextCursor(cursor)
    for bar, value in zip(bars, values, strict=True):
        bar.setValue(value)


def _place_at(fields: list[TextField], point: QPoint) -> tuple[TextField, int]:
    found = fields[0]
    for field in fields:
        if field.viewport().mapToGlobal(QPoint(0, 0)).y() <= point.y():
            found = field
    at = found.viewport().mapFromGlobal(point)
    if at.y() < 0:
        return found, 0
    if at.y() > found.viewport().height():
        return found, _length(found)
    return found, found.cursorForPosition(at).position()
