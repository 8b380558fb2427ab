"""Start, run and stop the app.

Closing stores everything and ends the engine before the loop stops, also if the display is lost
(the X server died, a remote session was cut) and Qt leaves its event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from typing import Any, NoReturn

# qasync takes the binding it finds first; this says which, before it is imported.
os.environ.setdefault("QT_API", "pyside6")

from PySide6.QtCore import QObject, Qt, QTimer, QTimerEvent, qInstallMessageHandler
from PySide6.QtWidgets import QApplication
from qasync import QEventLoop

from core.api.errors import DataFolderBusyError, WaymarkError
from core.client.client import EngineClient
from core.client.programs import forbid_core_dumps, say_running
from core.client.traces import report_uncaught
from desktop import starting, theme
from desktop.engine.tasks import attempted
from desktop.i18n import tr, use_language
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
EXIT_LOST_DISPLAY = 4
# SIGHUP comes when the terminal that started the app is closed; Windows has none.
END_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
COLLECT_EVERY_MS = 5_000
CARET_RESTS_AFTER_MS = 10_000
# Closing takes up to 8 s: 3 to forget deleted chats, 5 for the worker to write its caches.
CLOSING_LIMIT_S = 20.0
# Without a display Qt returns from its loop at once; this keeps a processor from spinning.
PAUSE_S = 0.01


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
        self.window.show()
        self.window.tray.follow()
        self._second_starts = SecondStarts(self.parts.folders.data, self.window.come_to_front)
        self.parts.begin()
        if self.parts.restored:
            self.window.toast.say(self.parts.restored, "warning")
        if self.parts.notices:
            starting.tell_notices(self.window, self.parts.notices, self.parts.folders.data)

    def leave(self) -> None:
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


class RestingCaret(QObject):
    """The caret stops blinking, which wakes an idle window twice a second, until it moves."""

    def __init__(self, qt: QApplication) -> None:
        super().__init__(qt)
        self._usual_ms = qt.cursorFlashTime()
        self._rest = QTimer(self, singleShot=True, interval=CARET_RESTS_AFTER_MS)
        self._rest.timeout.connect(self._stop)
        self._rest.start()
        qt.inputMethod().cursorRectangleChanged.connect(self._on_move)

    def _stop(self) -> None:
        QApplication.setCursorFlashTime(0)

    def _on_move(self) -> None:
        if QApplication.cursorFlashTime() != self._usual_ms:
            QApplication.setCursorFlashTime(self._usual_ms)
        self._rest.start()


async def stay_open(folders: Folders, engine: EngineClient) -> None:
    """If cancelled or failing, closes the window first."""
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
    """Leaves out those that `nohup` ignores."""
    found = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    return [number for number in found if signal.getsignal(number) is not signal.SIG_IGN]


async def open_or_refuse(chosen: str | None) -> int:
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
    """Returns the error that prevented the window. With `anew` the database is set aside first."""
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
    use_language("system")
    # The last visible window may be a dialog.
    qt.setQuitOnLastWindowClosed(False)
    report_uncaught(log_uncaught)
    garbage = GarbageCollector()
    RestingCaret(qt)
    with QEventLoop(qt) as loop:
        try:
            code = run_loop(loop, open_or_refuse(options.data))
        except DisplayLostError:
            end_without_display()
    garbage.close()
    end_unjoined(code)
    return code


class GarbageCollector(QObject):
    """Collects garbage in this thread only.

    In another one it would destroy Qt objects of reference cycles, whose timers then fire into
    freed memory (a crash in QTimerInfoList::activateTimers).
    """

    def __init__(self) -> None:
        super().__init__()
        self._thresholds = gc.get_threshold()
        gc.disable()
        self._timer = self.startTimer(COLLECT_EVERY_MS, Qt.TimerType.VeryCoarseTimer)

    def close(self) -> None:
        self.killTimer(self._timer)
        gc.collect()
        gc.enable()

    def collect_if_due(self) -> None:
        counts = gc.get_count()
        due = [age for age in range(3) if counts[age] > self._thresholds[age]]
        if due:
            gc.collect(due[-1])

    def timerEvent(self, event: QTimerEvent) -> None:
        self.collect_if_due()


class DisplayLostError(Exception):
    """Qt left its event loop; the app has been closed since."""


def run_loop(loop: QEventLoop, life: Coroutine[Any, Any, int]) -> int:
    """If Qt leaves its loop, cancels `life`, runs it to its end and raises DisplayLostError."""
    task = asyncio.ensure_future(life, loop=loop)
    if _run_until_done(loop, task):
        return task.result()
    # From here on Qt would repeat its message at every turn.
    qInstallMessageHandler(lambda *_: None)
    task.cancel()
    end = time.monotonic() + CLOSING_LIMIT_S
    while not _run_until_done(loop, task) and time.monotonic() < end:
        time.sleep(PAUSE_S)
    raise DisplayLostError


def _run_until_done(loop: QEventLoop, task: asyncio.Task[int]) -> bool:
    def stop(_task: asyncio.Task[int]) -> None:
        loop.stop()

    task.add_done_callback(stop)
    try:
        loop.run_forever()
    finally:
        task.remove_done_callback(stop)
    return task.done()


def end_without_display() -> NoReturn:
    """End at once: taking Qt down would make Xlib abort."""
    said = tr("Waymark has lost its display and has closed. Your chats are stored.")
    print(said, file=sys.stderr, flush=True)
    os._exit(EXIT_LOST_DISPLAY)


def end_unjoined(code: int) -> None:
    """End despite busy threads, for which Python would wait: all is stored."""
    if unfinished():
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            # None if there is no terminal.
            if stream is not None:
                stream.flush()
        os._exit(code)
