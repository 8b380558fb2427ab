"""The Tab order of the window: line by line.

Qt's own order is the order of creation, and messages are created when they are scrolled to.
"""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QScrollArea, QWidget

from desktop.chat.transcript_view import TranscriptView


def tab_stops(root: QWidget, focused: QWidget | None = None) -> list[QWidget]:
    """Widgets below `root` that Tab reaches, and `focused`, in visual order."""
    stops: list[QWidget] = []
    children = [child for child in root.children() if isinstance(child, QWidget)]
    for child in _by_lines(child for child in children if child.isVisibleTo(root)):
        if child.isWindow():
            continue
        if child is focused or _takes_tab(child):
            stops.append(child)
        # Skip the field inside a box.
        if not isinstance(child, QComboBox | QAbstractSpinBox):
            stops += tab_stops(child, focused)
    return stops


def move_focus(root: QWidget, forward: bool) -> bool:
    """Focus the next or previous widget, cyclically, and scroll to it; False if there is none."""
    focused = QApplication.focusWidget()
    stops = tab_stops(root, focused)
    if not stops:
        return False
    step = 1 if forward else -1
    at = stops.index(focused) + step if focused in stops else min(0, step)
    stop, reasons = stops[at % len(stops)], Qt.FocusReason
    stop.setFocus(reasons.TabFocusReason if forward else reasons.BacktabFocusReason)
    _show_whole(stop)
    return True


def _show_whole(widget: QWidget) -> None:
    parent = widget.parentWidget()
    while parent is not None:
        if isinstance(parent, QScrollArea):
            parent.ensureWidgetVisible(widget)
        elif isinstance(parent, TranscriptView):
            parent.show_whole(widget)
        parent = parent.parentWidget()


def _takes_tab(widget: QWidget) -> bool:
    by_tab = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
    return by_tab and widget.isEnabled() and widget.focusProxy() is None


def _by_lines(widgets: Iterable[QWidget]) -> list[QWidget]:
    lines: list[list[QWidget]] = []
    for widget in sorted(widgets, key=lambda each: each.geometry().center().y()):
        if lines and widget.geometry().center().y() <= lines[-1][0].geometry().bottom():
            lines[-1].append(widget)
        else:
            lines.append([widget])
    return [each for line in lines for each in sorted(line, key=lambda each: each.x())]
