"""Starts and ends the app: folders, lock, loop, window; and nothing else happens here.

The window is on screen before the engine's process is up. Where it can't come up, a dialog says
why and what can be done. Closing stores everything, ends the engine, and only then lets the loop
stop.
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
from desktop import lost_display, theme
from desktop.engine.engine import Engine
from desktop.engine.tasks import attempted
from desktop.garbage import GarbageCollector
from desktop.lost_display import DisplayLostError
from desktop.second_start import SecondStarts, ask_to_raise
from desktop.starting import (
    StartError,
    chosen_folders,
    claimed_folders,
    folder_to_open,
    words_of,
)
from desktop.store.folders import SAMPLE_PICTURES, Folders
from desktop.store.tables.faults import StoreError
from desktop.threads import unfinished
from desktop.window import start_dialogs
from desktop.window.main_window import MainWindow
from desktop.window.window_parts import WindowParts
from desktop.window_log import log_uncaught, report_from_loop
from desktop.words import frame as words

# Desktops find the icon of a window on Wayland, and its name, in the desktop file of this name.
APP_ID = "io.github.waymark.Waymark"
EXIT_REFUSED = 3
# The last one comes when the terminal that started the app is closed; Windows has none.
END_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class App:
    """One window and what it acts through, from the first moment to the last."""

    def __init__(self, folders: Folders, engine: Engine) -> None:
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
        """Show the window, then start what runs behind it."""
        self.window.show()
        self._second_starts = SecondStarts(self.parts.folders.data, self.window.come_to_front)
        self.parts.begin()
        if self.parts.notices:
            start_dialogs.tell(self.window, self.parts.notices, self.parts.folders.data)

    def leave(self) -> None:
        """Begin to close, in the background; `gone` is set at its end."""
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


async def stay_open(folders: Folders, engine: Engine) -> None:
    """Open the window and stay until it is closed; cancelled or failing, close it first."""
    app = App(folders, engine)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report_from_loop)
    for number in unignored(END_SIGNALS):
        # Windows has no such handlers in a loop; there the window is closed by its user only.
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
    """The signals of these names that there are; what `nohup` has ignored stays ignored."""
    found = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    return [number for number in found if signal.getsignal(number) is not signal.SIG_IGN]


async def open_or_refuse(chosen: str | None) -> int:
    """The whole life of the app; returns the exit code."""
    anew = False
    while refusal := await live(chosen, anew):
        if isinstance(refusal, DataFolderBusyError) and await raised_elsewhere(chosen):
            print(words.ALREADY_RUNNING, flush=True)
            return 0
        print(f"{refusal.title}. {refusal.message}", file=sys.stderr, flush=True)
        blames_file = isinstance(refusal, StoreError) and refusal.blames_file
        choice = await start_dialogs.choose(refusal, folder_to_open(chosen), blames_file)
        if choice is start_dialogs.Choice.CLOSE:
            return EXIT_REFUSED
        anew = choice is start_dialogs.Choice.ANEW
    return 0


async def raised_elsewhere(chosen: str | None) -> bool:
    """Whether the Waymark that has the data folder open has shown its window instead."""
    return await ask_to_raise(chosen_folders(chosen).data)


async def live(chosen: str | None, anew: bool) -> WaymarkError | None:
    """Open the window and stay until it is closed; returns why that failed.

    With `anew` the file of chats is put aside first.
    """
    try:
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        theme.apply(application)
        with claimed_folders(chosen, anew) as folders:
            await stay_open(folders, EngineClient(folders.engine_log))
    except WaymarkError as error:
        return error
    except Exception as error:
        return StartError(words_of(error))
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `waymark`; returns the exit code."""
    parser = argparse.ArgumentParser("waymark", description="Chat with a model on this computer.")
    parser.add_argument("--data", metavar="DIR", help="keep chats and settings in this folder")
    options = parser.parse_args(arguments)
    forbid_core_dumps()
    faulthandler.enable()
    say_running()
    qt = QApplication(sys.argv[:1])
    qt.setApplicationName("Waymark")
    qt.setDesktopFileName(APP_ID)
    # The last visible window may be a dialog; leaving is decided in one place.
    qt.setQuitOnLastWindowClosed(False)
    report_uncaught(log_uncaught)
    garbage = GarbageCollector()
    with QEventLoop(qt) as loop:
        try:
            code = lost_display.run(loop, open_or_refuse(options.data))
        except DisplayLostError:
            lost_display.end_at_once()
    garbage.close()
    end_unjoined(code)
    return code


def end_unjoined(code: int) -> None:
    """End the process here if a thread still works: Python would wait for some at its end.

    All is stored, the lock released and the engine ended by then.
    """
    if unfinished():
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            # Where the window was started without a terminal there is none.
            if stream is not None:
                stream.flush()
        os._exit(code)
