"""Replies and downloads that go on by themselves; the computer stays awake meanwhile.

A system's own program keeps it awake for as long as a child of that program runs: `cat`, which ends
when this process closes its input or dies. Windows ends it with the thread that asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import sys
from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from desktop.chat.replies import Replies
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.models.downloads import RUNNING, DownloadsController
from desktop.server.server import ServerController
from desktop.settings.settings import SettingsController

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
        self, replies: Replies, downloads: DownloadsController, server: ServerController
    ) -> None:
        super().__init__()
        self._replies, self._downloads, self._server = replies, downloads, server
        self._busy = False
        for each in (replies.progressed, replies.ended, downloads.changed, server.listed):
            each.connect(self._look)

    @property
    def replying(self) -> bool:
        """A reply is written to the user, or to a program through the local server."""
        return bool(self._replies.live) or self._server.replying

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
    """Keeps the computer awake during work, if the user wants that and the system can."""

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
    """Keep the computer awake until cancelled, for LONGEST_S at most."""
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
