"""Before the window: claim the data folder, raise a running window, say why there is none.

A second start puts an empty file into a folder that the first one watches, and its deletion is the
answer: no socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from core.api.errors import WaymarkError
from core.client.lock import DataFolderLock
from core.client.traces import trace_of
from core.system.private_files import create, private_folder, sweep
from desktop.engine.error_words import in_language
from desktop.i18n import tr
from desktop.store import backups
from desktop.store.folders import Folders
from desktop.store.tables.errors import StoreError
from desktop.widgets import dialogs
from desktop.widgets.plain import message_box, named
from desktop.window_log import kept_log

log = logging.getLogger(__name__)

ANSWER_WITHIN_S = 1.0
LOOK_AGAIN_S = 0.02
# Any other file in the folder isn't ours and is left alone.
RAISE_REQUEST = re.compile(r"raise-[0-9]{1,10}")

# The folders.


class StartError(WaymarkError, title="Waymark could not start"): ...


@contextlib.contextmanager
def claimed_folders(chosen: str | None, anew: bool = False) -> Iterator[Folders]:
    """Created and locked; `anew` sets the chats aside. Raises WaymarkError for all errors."""
    folders = chosen_folders(chosen)
    with claimed(folders), kept_log(folders.window_log):
        if anew:
            set_aside(folders.database)
        try:
            yield folders
        except WaymarkError:
            raise
        except Exception as error:
            log.error("Waymark ended: %s", trace_of(error))
            raise StartError(words_of(error)) from None


def chosen_folders(chosen: str | None) -> Folders:
    """Raises StoreError for a path that can't exist."""
    try:
        return Folders.choose(chosen)
    except (OSError, RuntimeError):
        # An unknown user, or a loop of links.
        words = tr("The chosen data folder is not a valid path on this system.")
        raise StoreError(words) from None


def folder_to_open(chosen: str | None) -> Path | None:
    with contextlib.suppress(StoreError):
        folder = chosen_folders(chosen).data
        return folder if os.path.isdir(folder) else None
    return None


@contextlib.contextmanager
def claimed(folders: Folders) -> Iterator[None]:
    """Raises StoreError, DataFolderBusyError."""
    try:
        folders.create()
        lock = DataFolderLock(folders.data)
        with contextlib.suppress(OSError):  # left for a later start
            sweep(folders.settings)
    except OSError as error:
        where = error.filename or folders.data
        words = tr("{path} can't be used: {reason}.")
        raise StoreError(words.format(path=where, reason=error.strerror)) from error
    try:
        yield
    finally:
        lock.release()


def set_aside(database: Path) -> None:
    try:
        backups.set_aside(database)
    except OSError as error:
        words = tr("{path} can't be renamed: {reason}.")
        raise StoreError(words.format(path=database, reason=error.strerror)) from error


def words_of(error: Exception) -> str:
    """An unexpected error's kind and file, never its message."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return tr("An unexpected error occurred ({kind}).").format(kind=type(error).__name__)


# A second start.


def asking_folder(data: Path) -> Path:
    return data / "second-start"


class SecondStarts(QObject):
    """Calls `raised` when a second start asks for the window."""

    def __init__(self, data: Path, raised: Callable[[], None]) -> None:
        super().__init__()
        self._folder = asking_folder(data)
        self._raised = raised
        self._watcher = QFileSystemWatcher(self)
        # Without the folder, a second start only says that Waymark is running.
        with contextlib.suppress(OSError):
            private_folder(self._folder)
            self._take()
            self._watcher.addPath(str(self._folder))
        self._watcher.directoryChanged.connect(self._on_change)

    def close(self) -> None:
        self._watcher.deleteLater()

    def _on_change(self) -> None:
        if self._take():
            self._raised()

    def _take(self) -> bool:
        taken = False
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in filter(_is_request, entries):
                with contextlib.suppress(OSError):
                    Path(entry.path).unlink()
                    taken = True
        return taken


def _is_request(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        is_file = entry.is_file(follow_symlinks=False)
        empty = is_file and entry.stat(follow_symlinks=False).st_size == 0
        return empty and RAISE_REQUEST.fullmatch(entry.name) is not None
    return False


async def ask_to_raise(data: Path) -> bool:
    """Returns whether the other process did."""
    request = asking_folder(data) / f"raise-{os.getpid()}"
    try:
        os.close(create(request))
    except OSError:
        return False
    end = time.monotonic() + ANSWER_WITHIN_S
    while request.exists():
        if time.monotonic() > end:
            with contextlib.suppress(OSError):
                request.unlink()
            return False
        await asyncio.sleep(LOOK_AGAIN_S)
    return True


# The dialogs.


class Choice(enum.Enum):
    CLOSE = enum.auto()
    AGAIN = enum.auto()
    ANEW = enum.auto()


async def ask_what_to_do(error: WaymarkError, folder: Path | None, anew: bool) -> Choice:
    """`anew` offers to begin with empty chats."""
    message = in_language(error.message)
    if anew:
        message += "\n\n" + tr(
            "If you start with empty chats, the old file stays in its folder under another name; "
            "nothing in it is deleted."
        )
    while True:
        box = named(message_box(in_language(error.title), message), "refusal")
        box.setStandardButtons(QMessageBox.StandardButton.Close | QMessageBox.StandardButton.Retry)
        anew_button = open_button = None
        role = QMessageBox.ButtonRole.ActionRole
        if anew:
            anew_button = box.addButton(tr("Start with empty chats"), role)
        if folder is not None:
            open_button = box.addButton(tr("Open folder"), role)
        box.setEscapeButton(QMessageBox.StandardButton.Close)
        await dialogs.outcome(box)
        clicked = box.clickedButton()
        if folder is not None and clicked is open_button:
            dialogs.open_folder(folder)
        elif anew_button is not None and clicked is anew_button:
            return Choice.ANEW
        else:
            retry = clicked is box.button(QMessageBox.StandardButton.Retry)
            return Choice.AGAIN if retry else Choice.CLOSE


def tell_notices(window: QWidget, notices: Sequence[str], folder: Path) -> QMessageBox:
    title = tr("Waymark has started, but there was a problem")
    box = named(message_box(title, "\n\n".join(notices), window), "startNotice")
    box.setStandardButtons(QMessageBox.StandardButton.Close)
    opens = box.addButton(tr("Open folder"), QMessageBox.ButtonRole.ActionRole)
    opens.clicked.connect(lambda: dialogs.open_folder(folder))
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setWindowModality(Qt.WindowModality.NonModal)
    box.show()
    return box
