"""Work that goes on without the window: staying awake, the tray, the question at closing."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import sys
from collections.abc import Sequence
from typing import cast

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QMenu, QMessageBox, QSystemTrayIcon, QWidget

from desktop import theme
from desktop.chat.replies import Replies
from desktop.chat.transcript import LiveReply
from desktop.chats.chat_list import ChatList
from desktop.compare.compare import CompareController
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.models.downloads import RUNNING, DownloadsController
from desktop.server.server import ServerController
from desktop.settings.settings import SettingsController
from desktop.store.tables.records import Reply, ReplyState
from desktop.widgets import dialogs
from desktop.widgets.plain import action, message_box, named
from desktop.widgets.plain_text import shortened

# A download that stalls doesn't keep a computer awake for longer.
LONGEST_S = 12 * 3_600.0
# Starting work is activity too, so the computer doesn't sleep this soon.
PATIENCE_S = 10.0
END_S = 5.0
# Of SetThreadExecutionState: until the next call, and the system's idle timer.
CONTINUOUS, SYSTEM_REQUIRED = 0x80000000, 1


class Work(QObject):
    changed = Signal()

    def __init__(
        self,
        replies: Replies,
        downloads: DownloadsController,
        server: ServerController,
        compare: CompareController,
    ) -> None:
        super().__init__()
        self._replies, self._downloads, self._server = replies, downloads, server
        self._compare = compare
        self._busy = False
        for each in (replies.progressed, replies.ended, downloads.changed, server.listed):
            each.connect(self._look)
        for each in (compare.begun, compare.changed):
            each.connect(self._look)

    @property
    def replying(self) -> bool:
        """To the user, in a chat or a comparison, or to a program of the local server."""
        return bool(self._replies.live) or self._server.replying or self._compare.running

    @property
    def downloading(self) -> bool:
        return any(each.stage in RUNNING for each in self._downloads.shown.values())

    @property
    def busy(self) -> bool:
        return self.replying or self.downloading

    def _look(self) -> None:
        if self.busy != self._busy:
            self._busy = self.busy
            self.changed.emit()


class Wakefulness(QObject):
    def __init__(self, work: Work, settings: SettingsController, tasks: Tasks) -> None:
        super().__init__()
        self._work, self._settings, self._tasks = work, settings, tasks
        self._staying: asyncio.Task[None] | None = None
        work.changed.connect(self._follow)
        settings.changed.connect(self._follow)

    def _follow(self) -> None:
        wanted = self._work.busy and self._settings.settings.background.stay_awake
        if wanted and self._staying is None:
            self._staying = self._tasks.spawn(_stay_awake(), tr("Keeping the computer awake"))
        elif not wanted and self._staying is not None:
            self._staying.cancel()
            self._staying = None


async def _stay_awake() -> None:
    """For LONGEST_S at most: a system's program does it as long as its child `cat` runs, which ends
    when this process closes its input or dies."""
    await asyncio.sleep(PATIENCE_S)
    if sys.platform == "win32":
        ctypes.windll.kernel32.SetThreadExecutionState(CONTINUOUS | SYSTEM_REQUIRED)
        try:
            await asyncio.sleep(LONGEST_S)
        finally:
            ctypes.windll.kernel32.SetThreadExecutionState(CONTINUOUS)
        return
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    # A system without such a program sleeps when it likes.
    with contextlib.suppress(OSError):
        program = await asyncio.create_subprocess_exec(
            *command(), stdin=pipe, stdout=nothing, stderr=nothing
        )
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(program.wait(), LONGEST_S)
        finally:
            assert program.stdin is not None
            program.stdin.close()
            try:
                await asyncio.wait_for(program.wait(), END_S)
            except TimeoutError:
                program.kill()


def command() -> Sequence[str]:
    """The system's program, with `cat` to run."""
    reason = tr("A reply is being written, or a model is being downloaded")
    desktops = os.environ.get("XDG_CURRENT_DESKTOP", "").casefold().split(":")
    if sys.platform == "darwin":
        return ("caffeinate", "-i", "cat")
    # GNOME and KDE have their own idle timers.
    if "gnome" in desktops and shutil.which("gnome-session-inhibit"):
        return ("gnome-session-inhibit", "--reason", reason, "--inhibit", "suspend", "cat")
    if "kde" in desktops and shutil.which("kde-inhibit"):
        return ("kde-inhibit", "--power", "cat")
    return ("systemd-inhibit", "--what=idle:sleep", "--who=Waymark", f"--why={reason}", "cat")


LONGEST_TITLE = 80


class Tray(QObject):
    """The icon is shown for notifications, or while the window is hidden."""

    show_asked = Signal()
    quit_asked = Signal()
    # The notification of this chat was clicked.
    open_asked = Signal(int)

    def __init__(
        self, window: QWidget, replies: Replies, chats: ChatList, settings: SettingsController
    ) -> None:
        super().__init__(window)
        self._window, self._chats, self._settings = window, chats, settings
        self._told: int | None = None
        menu = named(QMenu(window), "trayMenu")
        menu.addAction(action(tr("Show Waymark"), menu, self.show_asked.emit))
        menu.addAction(action(tr("Quit"), menu, self.quit_asked.emit))
        self.icon = QSystemTrayIcon(theme.icon("waymark", "accent"), self)
        self.icon.setToolTip("Waymark")
        self.icon.setContextMenu(menu)
        self.icon.activated.connect(self._on_click)
        self.icon.messageClicked.connect(self._on_message)
        settings.changed.connect(self.follow)
        replies.ended.connect(self._on_end)

    @property
    def available(self) -> bool:
        return QSystemTrayIcon.isSystemTrayAvailable()

    @property
    def _wanted(self) -> bool:
        return self._settings.settings.background.notify or self._window.isHidden()

    def follow(self) -> None:
        """Called when the window is shown or hidden."""
        # A tray may come later than the window.
        self.icon.setVisible(self._wanted and self.available)

    def _on_click(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        # A right click opens the menu.
        if reason is not QSystemTrayIcon.ActivationReason.Context:
            self.show_asked.emit()

    def _on_message(self) -> None:
        self.show_asked.emit()
        if self._told is not None:
            self.open_asked.emit(self._told)

    def _on_end(self, live: LiveReply, _text: str, reply: Reply) -> None:
        elsewhere = QApplication.activeWindow() is None
        ended = reply.state in (ReplyState.COMPLETE, ReplyState.FAILED)
        if not (elsewhere and ended and self._settings.settings.background.notify):
            return
        self.follow()
        cast(QApplication, QApplication.instance()).alert(self._window)
        chat = self._chats.chat_of(live.chat)
        title = " ".join(chat.title.split()) if chat else ""
        failed = reply.state is ReplyState.FAILED
        words = tr("The reply failed.") if failed else tr("The reply is finished.")
        self._told = live.chat
        # A notification's text may be read as markup, its title is not.
        self.icon.showMessage(shortened(title, LONGEST_TITLE) or "Waymark", words, self.icon.icon())


class Closing(QObject):
    """The first answer is stored as a setting. Without a tray, the window stays or everything
    stops."""

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
