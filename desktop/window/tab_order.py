"""The order in which Tab goes through the window: line by line, as its parts are laid out.

Qt's own order is the order in which widgets were made, and messages are made as they come near.
"""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QScrollArea, QWidget

from desktop.chat.transcript_view import TranscriptView


def tab_stops(root: QWidget, held: QWidget | None = None) -> list[QWidget]:
    """Widgets below `root` that Tab reaches, and `held` in its place, in visual order."""
    stops: list[QWidget] = []
    children = [child for child in root.children() if isinstance(child, QWidget)]
    for child in _by_lines(child for child in children if child.isVisibleTo(root)):
        if child.isWindow():
            continue
        if child is held or _takes_tab(child):
            stops.append(child)
        # The field inside a box is the box's own.
        if not isinstance(child, QComboBox | QAbstractSpinBox):
            stops += tab_stops(child, held)
    return stops


def move_focus(root: QWidget, forward: bool) -> bool:
    """Give the focus to the stop after or before the one that has it; says whether there is one.

    From the last it goes to the first. The stop is scrolled into view.
    """
    held = QApplication.focusWidget()
    stops = tab_stops(root, held)
    if not stops:
        return False
    step = 1 if forward else -1
    at = stops.index(held) + step if held in stops else min(0, step)
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
    """From the top line to the bottom one, each from left to right."""
    lines: list[list[QWidget]] = []
    for widget in sorted(widgets, key=lambda each: each.geometry().center().y()):
        if lines and widget.geometry().center().y() <= lines[-1][0].geometry().bottom():
            lines[-1].append(widget)
        else:
            lines.append([widget])
    return [each for line in lines for each in sorted(line, key=lambda each: each.x())]
