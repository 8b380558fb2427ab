"""Start and stop the app.

The window is on screen before the engine's process is up. If it can't open, a dialog says why.
Closing stores everything, ends the engine, and only then stops the loop.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Sequence

# qasync takes the binding it finds first; this says which, before it is imported.
os.environ.setdefault("QT_API", "pyside6")

from PySide6.QtWidgets import QApplication
from qasync import QEventLoop

from core.api.errors import DataFolderBusyError, WaymarkError
from core.client.client import EngineClient
from core.client.programs import forbid_core_dumps, say_running
from core.client.traces import report_uncaught
from desktop import event_loop, starting, theme
from desktop.engine.tasks import attempted
from desktop.event_loop import DisplayLostError, GarbageCollector
from desktop.i18n import tr
from desktop.starting import SecondStarts, StartError
from desktop.store.folders import SAMPLE_PICTURES, Folders
from desktop.store.tables.errors import StoreError
from desktop.threads import unfinished
from desktop.window.main_window import MainWindow
from desktop.window.window_parts import WindowParts
from desktop.window_log import log_uncaught, report_from_loop

# Wayland finds the window's icon and name in the desktop file of this name.
APP_ID = "io.github.waymark.Waymark"
EXIT_REFUSED = 3
# SIGHUP comes when the terminal that started the app is closed; Windows has none.
END_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class App:
    def __init__(self, folders: Folders, engine: EngineClient) -> None:
        self.parts = WindowParts(folders, engine)
        try:
            self.window = MainWindow(self.parts, SAMPLE_PICTURES)
        except BaseException:
            self.parts.database.close()
            raise
        self.window.close_asked.connect(self.leave)
        self._second_starts: SecondStarts | None = None
        self.gone = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Show the window, then start the engine and the other work in the background."""
        self.window.show()
        self._second_starts = SecondStarts(self.parts.folders.data, self.window.come_to_front)
        self.parts.begin()
        if self.parts.notices:
            starting.tell_notices(self.window, self.parts.notices, self.parts.folders.data)

    def leave(self) -> None:
        """Close in the background; `gone` is set at the end."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._close())

    async def _close(self) -> None:
        if self._second_starts is not None:
            self._second_starts.close()
        await attempted("remembering the window's size", self.window.save_geometry)
        await attempted("keeping the draft", self.window.page.composer.keep)
        await attempted("closing", self.parts.close, limit_s=None)
        await attempted("closing the window", self.window.leave)
        self.gone.set()


async def stay_open(folders: Folders, engine: EngineClient) -> None:
    """Run until the window is closed; if cancelled or failing, close it first."""
    app = App(folders, engine)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report_from_loop)
    for number in unignored(END_SIGNALS):
        # Windows has no signal handlers in a loop.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, app.leave)
    try:
        app.begin()
        await app.gone.wait()
    except BaseException:
        app.leave()
        await app.gone.wait()
        raise


def unignored(names: Sequence[str]) -> list[signal.Signals]:
    """The signals of these names that exist, without those that `nohup` ignores."""
    found = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    return [number for number in found if signal.getsignal(number) is not signal.SIG_IGN]


async def open_or_refuse(chosen: str | None) -> int:
    """Run the app; returns the exit code."""
    anew = False
    while refusal := await live(chosen, anew):
        if isinstance(refusal, DataFolderBusyError) and await raised_elsewhere(chosen):
            said = tr("Waymark is already running; its window was brought to the front.")
            print(said, flush=True)
            return 0
        print(f"{refusal.title}. {refusal.message}", file=sys.stderr, flush=True)
        blames_file = isinstance(refusal, StoreError) and refusal.blames_file
        choice = await starting.ask_what_to_do(
            refusal, starting.folder_to_open(chosen), blames_file
        )
        if choice is starting.Choice.CLOSE:
            return EXIT_REFUSED
        anew = choice is starting.Choice.ANEW
    return 0


async def raised_elsewhere(chosen: str | None) -> bool:
    return await starting.ask_to_raise(starting.chosen_folders(chosen).data)


async def live(chosen: str | None, anew: bool) -> WaymarkError | None:
    """Open the window and run until it is closed; returns the error that prevented it.

    With `anew` the database is set aside first.
    """
    try:
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        theme.apply(application)
        with starting.claimed_folders(chosen, anew) as folders:
            await stay_open(folders, EngineClient(folders.engine_log))
    except WaymarkError as error:
        return error
    except Exception as error:
        return StartError(starting.words_of(error))
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("waymark", description="Chat with a model on this computer.")
    parser.add_argument("--data", metavar="DIR", help="keep chats and settings in this folder")
    options = parser.parse_args(arguments)
    forbid_core_dumps()
    faulthandler.enable()
    say_running()
    qt = QApplication(sys.argv[:1])
    qt.setApplicationName("Waymark")
    qt.setDesktopFileName(APP_ID)
    # The last visible window may be a dialog.
    qt.setQuitOnLastWindowClosed(False)
    report_uncaught(log_uncaught)
    garbage = GarbageCollector()
    with QEventLoop(qt) as loop:
        try:
            code = event_loop.run(loop, open_or_refuse(options.data))
        except DisplayLostError:
            event_loop.end_without_display()
    garbage.close()
    end_unjoined(code)
    return code


def end_unjoined(code: int) -> None:
    """End the process here if a thread is still busy, for Python would wait for it.

    By now everything is stored, the lock released and the engine ended.
    """
    if unfinished():
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            # None if there is no terminal.
            if stream is not None:
                stream.flush()
        os._exit(code)
