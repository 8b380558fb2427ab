"""The right side: what the engine has in its context, and the settings, one behind the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QStackedWidget,
    QVBoxLayout,
)

from desktop import theme
from desktop.context.context_panel import ContextPanel
from desktop.settings.settings_panel import SettingsPanel
from desktop.widgets.plain import ToolButton
from desktop.widgets.scrolled import scrolled
from desktop.words import frame as words


class SidePanel(QFrame):
    """Two pages and the buttons that turn them.

    The settings are made when they are first shown: they are a third of the window's widgets.
    """

    def __init__(self, context: ContextPanel, make_settings: Callable[[], SettingsPanel]) -> None:
        super().__init__()
        self._make_settings = make_settings
        self.setObjectName("contextSide")
        self._pages = QStackedWidget()
        self._pages.setObjectName("sidePages")
        self._buttons = QButtonGroup(self)
        self._buttons.setExclusive(True)
        self._icons: list[tuple[ToolButton, str]] = []
        tabs = QHBoxLayout()
        tabs.setContentsMargins(10, 8, 10, 0)
        tabs.addWidget(self._tab(words.CONTEXT_TAB, "context", "contextTab", 0))
        tabs.addWidget(self._tab(words.SETTINGS_TAB, "settings", "settingsTab", 1))
        tabs.addStretch(1)
        self._pages.addWidget(scrolled(context, "contextScroll"))
        self._buttons.idClicked.connect(self.show_page)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(tabs)
        layout.addWidget(self._pages, 1)
        theme.signals().changed.connect(self._draw)
        self._draw()
        self.show_page(0)

    @cached_property
    def settings(self) -> SettingsPanel:
        """The second page."""
        return self._make_settings()

    def show_page(self, page: int) -> None:
        """0 is the context, 1 the settings."""
        self._buttons.button(page).setChecked(True)
        if page == 1 and self._pages.count() == 1:
            self._pages.addWidget(self.settings)
        self._pages.setCurrentIndex(page)

    def _tab(self, title: str, icon: str, name: str, page: int) -> ToolButton:
        button = ToolButton()
        button.setObjectName(name)
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
