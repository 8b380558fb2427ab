"""Has the app look the way the settings say, at the start and whenever they change."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from desktop import theme
from desktop.settings.settings import SettingsController


class Appearance(QObject):
    """Follows the settings of the window's theme and size of text."""

    def __init__(self, settings: SettingsController) -> None:
        super().__init__()
        self._settings = settings
        settings.changed.connect(self._dress)
        self._dress()

    def _dress(self) -> None:
        window, app = self._settings.settings.window, QApplication.instance()
        if not isinstance(app, QApplication):
            return
        if window.theme != theme.signals().choice:
            theme.force(app, window.theme)
        if window.text_size != theme.signals().text_size:
            theme.set_text_size(window.text_size)
