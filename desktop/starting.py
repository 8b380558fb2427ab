"""What comes before the window: folders made and claimed, the log opened, failures put in words."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from core.api.errors import WaymarkError
from core.client.lock import DataFolderLock
from core.client.traces import trace_of
from core.system.private_files import sweep
from desktop.store import copies
from desktop.store.folders import Folders
from desktop.store.tables.faults import StoreError
from desktop.window_log import kept_log

log = logging.getLogger(__name__)


class StartError(WaymarkError):
    """Something that nobody thought of."""

    title = "Waymark could not start"


@contextlib.contextmanager
def claimed_folders(chosen: str | None, anew: bool = False) -> Iterator[Folders]:
    """The folders made, and held by this process alone; with `anew` the chats are put aside.

    Raises WaymarkError, also for whatever is raised while they are held.
    """
    folders = chosen_folders(chosen)
    with claimed(folders), kept_log(folders.window_log):
        if anew:
            put_aside(folders.database)
        try:
            yield folders
        except WaymarkError:
            raise
        except Exception as error:
            log.error("Waymark ended: %s", trace_of(error))
            raise StartError(words_of(error)) from None


def chosen_folders(chosen: str | None) -> Folders:
    """Where everything lies. Raises StoreError for a place that there can't be."""
    try:
        return Folders.choose(chosen)
    except (OSError, RuntimeError):
        # A user that nobody knows, or links in a ring.
        words = "The data folder that was asked for is no place on this system."
        raise StoreError(words) from None


def folder_to_open(chosen: str | None) -> Path | None:
    """The data folder, if there is one to look into."""
    with contextlib.suppress(StoreError):
        folder = chosen_folders(chosen).data
        return folder if folder.is_dir() else None
    return None


@contextlib.contextmanager
def claimed(folders: Folders) -> Iterator[None]:
    """The folders made, and held by this process alone. Raises StoreError, DataFolderBusyError."""
    try:
        folders.create()
        lock = DataFolderLock(folders.data)
        with contextlib.suppress(OSError):  # what can't be deleted now goes at a later start
            sweep(folders.settings)
    except OSError as error:
        where = error.filename or folders.data
        raise StoreError(f"{where} can't be used: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


def put_aside(database: Path) -> None:
    """Give the file of chats another name. Raises StoreError."""
    try:
        copies.set_aside(database)
    except OSError as error:
        raise StoreError(f"{database} can't be renamed: {error.strerror}.") from error


def words_of(error: Exception) -> str:
    """The kind of an error, and the file where it is about one; never its own words."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return f"It met an error it doesn't know ({type(error).__name__})."
