"""Starts and ends the app: folders, lock, loop, window; and nothing else happens here.

The window is on screen before the engine's process is up. Closing stores everything, ends the
engine, and only then lets the loop stop.
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
from collections.abc import Iterator, Sequence
from logging.handlers import RotatingFileHandler

# qasync takes the binding it finds first; this says which, before it is imported.
os.environ.setdefault("QT_API", "pyside6")

from PySide6.QtWidgets import QApplication, QMessageBox
from qasync import QEventLoop

from core.api.errors import WaymarkError
from core.client.client import EngineClient
from core.client.lock import DataFolderLock
from desktop import lost_display, theme
from desktop.controllers.engine import Engine
from desktop.controllers.window_parts import WindowParts
from desktop.garbage import GarbageCollector
from desktop.lost_display import DisplayLostError
from desktop.store.faults import StoreError
from desktop.store.folders import SAMPLE_PICTURES, Folders
from desktop.views import dialogs
from desktop.views.main_window import MainWindow

EXIT_REFUSED = 3
# The last one comes when the terminal that started the app is closed; Windows has none.
END_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
LOG_BYTES = 1_000_000


class App:
    """One window and what it acts through, from the first moment to the last."""

    def __init__(self, folders: Folders, engine: Engine) -> None:
        self.parts = WindowParts(folders, engine)
        self.window = MainWindow(self.parts, SAMPLE_PICTURES)
        self.window.close_asked.connect(self.leave)
        self.gone = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Show the window, then start what runs behind it."""
        self.window.show()
        self.parts.begin()

    def leave(self) -> None:
        """Begin to close, in the background; `gone` is set at its end."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._close())

    async def _close(self) -> None:
        self.window.save_geometry()
        self.window.page.composer.keep()
        await self.parts.close()
        self.window.leave()
        self.gone.set()


async def stay_open(folders: Folders, engine: Engine) -> None:
    """Open the window and stay until it is closed; cancelled, close it first."""
    app = App(folders, engine)
    loop = asyncio.get_running_loop()
    for number in unignored(END_SIGNALS):
        # Windows has no such handlers in a loop; there the window is closed by its user only.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, app.leave)
    app.begin()
    try:
        await app.gone.wait()
    except asyncio.CancelledError:
        app.leave()
        await app.gone.wait()
        raise


def unignored(names: Sequence[str]) -> list[signal.Signals]:
    """The signals of these names that there are; what `nohup` has ignored stays ignored."""
    found = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    return [number for number in found if signal.getsignal(number) is not signal.SIG_IGN]


@contextlib.contextmanager
def kept_log(folders: Folders) -> Iterator[None]:
    """What goes wrong in the window's process, in a file; never what anyone wrote."""
    handler = RotatingFileHandler(
        folders.window_log, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", delay=True
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


async def open_or_refuse(chosen: str | None) -> int:
    """The whole life of the app; returns the exit code."""
    try:
        folders = Folders.choose(chosen)
        with claimed(folders), kept_log(folders):
            await stay_open(folders, EngineClient(folders.engine_log))
    except WaymarkError as error:
        print(f"{error.title}. {error.message}", file=sys.stderr, flush=True)
        await dialogs.outcome(refusal_box(error))
        return EXIT_REFUSED
    return 0


def refusal_box(error: WaymarkError) -> QMessageBox:
    """The dialog that stands in for the window."""
    box = QMessageBox(QMessageBox.Icon.Warning, "Waymark", error.title)
    box.setObjectName("refusal")
    box.setInformativeText(error.message)
    box.setStandardButtons(QMessageBox.StandardButton.Close)
    return box


@contextlib.contextmanager
def claimed(folders: Folders) -> Iterator[None]:
    """The folders made, and held by this process alone."""
    try:
        folders.create()
        lock = DataFolderLock(folders.data)
    except OSError as error:
        raise StoreError(f"{folders.data} can't be used: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `waymark`; returns the exit code."""
    parser = argparse.ArgumentParser("waymark", description="Chat with a model on this computer.")
    parser.add_argument("--data", metavar="DIR", help="keep chats and settings in this folder")
    options = parser.parse_args(arguments)
    faulthandler.enable()
    qt = QApplication(sys.argv[:1])
    qt.setApplicationName("Waymark")
    qt.setDesktopFileName("waymark")
    # The last visible window may be a dialog; leaving is decided in one place.
    qt.setQuitOnLastWindowClosed(False)
    theme.apply(qt)
    garbage = GarbageCollector()
    with QEventLoop(qt) as loop:
        try:
            code = lost_display.run(loop, open_or_refuse(options.data))
        except DisplayLostError:
            lost_display.end_at_once()
    garbage.close()
    return code
