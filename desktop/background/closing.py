"""The question when the window is closed during work: go on in the tray, or stop."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from desktop.background.tray import Tray
from desktop.background.work import Work
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.settings.settings import SettingsController
from desktop.widgets import dialogs
from desktop.widgets.plain import message_box, named


class Closing(QObject):
    """The first answer is remembered as a setting. Without a tray there is nothing to remember:
    the window then stays, or everything stops."""

    # Stop everything and quit.
    quit_asked = Signal()

    def __init__(
        self, window: QWidget, work: Work, tray: Tray, settings: SettingsController, tasks: Tasks
    ) -> None:
        super().__init__(window)
        self._window, self._work, self._tray = window, work, tray
        self._settings, self._tasks = settings, tasks
        self._box: QMessageBox | None = None

    def close(self) -> None:
        choice = self._settings.settings.background.when_closed
        if self._box is not None:
            dialogs.come_up(self._box)
        elif not self._work.busy or choice == "stop":
            self.quit_asked.emit()
        elif choice == "go_on" and self._tray.available:
            self._go_on()
        else:
            self._tasks.spawn(self._ask(), tr("Asking before the window closes"))

    def _go_on(self) -> None:
        self._window.hide()
        self._tray.follow()

    async def _ask(self) -> None:
        can_hide = self._tray.available
        box = named(message_box(self._title(), _words(can_hide), self._window), "closing")
        box.setIcon(QMessageBox.Icon.Question)
        role, go_on = QMessageBox.ButtonRole, None
        stop = named(box.addButton(tr("Stop and quit"), role.DestructiveRole), "closingStop")
        if can_hide:
            go_on = named(box.addButton(tr("Go on in the tray"), role.AcceptRole), "closingGoOn")
        words = tr("Cancel") if can_hide else tr("Keep the window open")
        cancel = named(box.addButton(words, role.RejectRole), "closingCancel")
        box.setDefaultButton(go_on or cancel)
        box.setEscapeButton(cancel)
        self._box = box
        try:
            await dialogs.outcome(box)
            clicked = box.clickedButton()
        finally:
            self._box = None
        if can_hide and clicked is not cancel:
            choice = "stop" if clicked is stop else "go_on"
            self._settings.set_value("background.when_closed", choice)
        if clicked is stop:
            self.quit_asked.emit()
        elif go_on is not None and clicked is go_on:
            self._go_on()

    def _title(self) -> str:
        if self._work.replying and self._work.downloading:
            return tr("A reply is being written, and a model is being downloaded")
        if self._work.downloading:
            return tr("A model is being downloaded")
        return tr("A reply is being written")


def _words(can_hide: bool) -> str:
    if not can_hide:
        return tr(
            "This system has no tray, so Waymark can't go on without its window. What has arrived "
            "is kept if you stop: a download can be resumed, and a reply continued."
        )
    return tr(
        "Waymark can go on without its window; its icon in the tray brings it back. What has "
        "arrived is kept if you stop: a download can be resumed, and a reply continued. Your "
        "answer is remembered; it can be changed in the settings, under In the background."
    )
