"""The window's layout: its place on the screens, its parts, the right pages, the Tab order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from PySide6.QtCore import QByteArray, QPoint, QRect, QSettings, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QButtonGroup,
    QComboBox,
    QFrame,
    QScrollArea,
    QSplitter,
    QStackedWidget,
    QWidget,
)

from desktop import theme
from desktop.chat.rows.transcript_view import TranscriptView
from desktop.context.context_panel import ContextPanel
from desktop.i18n import tr
from desktop.settings.settings_panel import SettingsPanel
from desktop.widgets.layouts import column, row, scrolled
from desktop.widgets.plain import ToolButton, named

# The system's frame around a window, whose size is unknown before it is shown.
FRAME = QSize(8, 40)
LEFT_PX, MIDDLE_PX, RIGHT_PX = 160, 370, 312
# Between both sides the conversation gets at least this, or one of them hides.
BETWEEN_PX = 460
FIRST_WIDTHS = (220, 730, 330)


def fitted_size(size: QSize, screen: QRect) -> QSize:
    """Leaves room for the window's frame."""
    return size.boundedTo(screen.size() - FRAME)


def fitted(window: QRect, screens: Sequence[QRect]) -> QRect:
    """Move the window onto the screen that shows most of it."""
    screen = max(screens, key=lambda each: _area(each.intersected(window)))
    size = window.size()
    if size.boundedTo(screen.size()) != size:
        size = fitted_size(size, screen)
    most = QPoint(screen.right() - size.width() + 1, screen.bottom() - size.height() + 1)
    left = max(screen.left(), min(window.left(), most.x()))
    top = max(screen.top(), min(window.top(), most.y()))
    return QRect(QPoint(left, top), size)


def _area(part: QRect) -> int:
    return max(0, part.width()) * max(0, part.height())


class Sides(QSplitter):
    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setObjectName("splitter")

    def fill(self, left: QWidget, middle: QWidget, right: QWidget) -> None:
        self._left, self._right = left, right
        self._parts = ((left, LEFT_PX), (middle, MIDDLE_PX), (right, RIGHT_PX))
        self._wants_left = self._wants_right = True
        # If there is room for one side only, the one asked for last.
        self._right_first = False
        for place, widget in enumerate((left, middle, right)):
            self.addWidget(widget)
            self.setStretchFactor(place, 1 if widget is middle else 0)
            self.setCollapsible(place, False)
        self.setSizes(FIRST_WIDTHS)
        theme.signals().changed.connect(self._on_theme)
        self._on_theme()

    def toggle_left(self) -> None:
        self._wants_left, self._right_first = self._left.isHidden(), False
        self._fold()

    def toggle_right(self) -> None:
        if self._right.isHidden():
            self.show_right()
        else:
            self._wants_right = False
            self._fold()

    def show_right(self) -> None:
        """Widens the window if needed; in a narrow one, the left part hides."""
        self._wants_right = self._right_first = True
        lack = self._needed(MIDDLE_PX, RIGHT_PX) - self.width()
        if lack > 0:
            window = self.window()
            window.resize(window.width() + lack, window.height())
        self._fold()

    def save(self, settings: QSettings) -> None:
        settings.setValue("splitter", self.saveState())
        settings.setValue("chats", self._wants_left)
        settings.setValue("side", self._wants_right)

    def restore(self, settings: QSettings) -> None:
        widths = settings.value("splitter")
        if isinstance(widths, QByteArray):
            self.restoreState(widths)
        self._wants_left = bool(settings.value("chats", True, type=bool))
        self._wants_right = bool(settings.value("side", True, type=bool))
        self._fold()

    def _on_theme(self) -> None:
        # Larger text needs wider parts.
        for part, least in self._parts:
            part.setMinimumWidth(_scaled(least))
        self.updateGeometry()
        self._fold()

    def _fold(self) -> None:
        left, right = self._wants_left, self._wants_right
        if left and right and self.width() < self._needed(LEFT_PX, BETWEEN_PX, RIGHT_PX):
            left, right = not self._right_first, self._right_first
        if right and self.width() < self._needed(MIDDLE_PX, RIGHT_PX):
            left, right = self._wants_left, False
        self._left.setVisible(left)
        self._right.setVisible(right)

    def _needed(self, *widths: int) -> int:
        return sum(map(_scaled, widths)) + (len(widths) - 1) * self.handleWidth()

    def minimumSizeHint(self) -> QSize:
        # The right side hides if it doesn't fit.
        return QSize(self._needed(LEFT_PX, MIDDLE_PX), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fold()
        super().resizeEvent(event)


def _scaled(width: int) -> int:
    return max(width, theme.px(width))


class SidePanel(QFrame):
    """The settings are made when first shown: they are a third of the window's widgets."""

    def __init__(
        self,
        context: ContextPanel,
        make_settings: Callable[[], SettingsPanel],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._make_settings = make_settings
        self.setObjectName("contextSide")
        self._pages = named(QStackedWidget(), "sidePages")
        self._buttons = QButtonGroup(self)
        self._buttons.setExclusive(True)
        self._icons: list[tuple[ToolButton, str]] = []
        context_tab = self._tab(tr("Context"), "context", "contextTab", 0)
        settings_tab = self._tab(tr("Model & settings"), "settings", "settingsTab", 1)
        tabs = row(context_tab, settings_tab, None, margins=(10, 8, 10, 0))
        column(tabs, (self._pages, 1), of=self, spacing=4)
        self._pages.addWidget(scrolled(context, "contextScroll"))
        self._buttons.idClicked.connect(self.show_page)
        theme.signals().changed.connect(self._draw)
        self._draw()
        self.show_page(0)

    @cached_property
    def settings(self) -> SettingsPanel:
        return self._make_settings()

    def show_page(self, page: int) -> None:
        """The context (0) or the settings (1)."""
        self._buttons.button(page).setChecked(True)
        if page == 1 and self._pages.count() == 1:
            self._pages.addWidget(self.settings)
        self._pages.setCurrentIndex(page)

    def _tab(self, title: str, icon: str, name: str, page: int) -> ToolButton:
        button = named(ToolButton(), name)
        button.set_words(title)
        button.setAccessibleName(title.replace("&", "and"))
        button.setCheckable(True)
        button.setToolButtonStyle(button.toolButtonStyle().ToolButtonTextBesideIcon)
        self._buttons.addButton(button, page)
        self._icons.append((button, icon))
        return button

    def _draw(self) -> None:
        for button, icon in self._icons:
            button.setIcon(theme.icon(icon))


def tab_stops(root: QWidget, focused: QWidget | None = None) -> list[QWidget]:
    """Widgets that Tab reaches, and `focused`, in visual order."""
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
    """Move cyclically and scroll to it; False if there is none."""
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
