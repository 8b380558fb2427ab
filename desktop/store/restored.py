"""A restored file of chats and settings, to take the place of the present ones at the next start.

    chats.restoring.db        is being written, with its log; deleted at the next start
    settings.restored.json    the settings, written before the file of chats is complete
    chats.restored.db         complete: the next start puts both in place

What was there is kept beside, as `chats.aside-DATE.db` and `settings.aside-DATE.json`. Each step is
a rename, and a start that was ended in between goes on where it was.
"""

from __future__ import annotations

import contextlib
import sqlite3
from contextlib import closing
from pathlib import Path

from core.client.sqlite_errors import ERRORS
from core.system.private_files import rename
from desktop.i18n import tr
from desktop.store import backups
from desktop.store.check import read_only
from desktop.store.folders import Folders
from desktop.store.settings import AppSettings
from desktop.store.settings_file import SettingsFile
from desktop.store.tables import attachments


def unfinished(folders: Folders) -> Path:
    return folders.database.with_stem(f"{folders.database.stem}.restoring")


def complete(folders: Folders) -> Path:
    return folders.database.with_stem(f"{folders.database.stem}.restored")


def _settings(folders: Folders) -> Path:
    return folders.settings_file.with_stem(f"{folders.settings_file.stem}.restored")


def finish(folders: Folders, settings: AppSettings) -> None:
    """Complete the closed file `unfinished`. Raises OSError."""
    SettingsFile(_settings(folders)).save(settings)
    rename(unfinished(folders), complete(folders))


def discard(folders: Folders, even_complete: bool = False) -> None:
    """Raises OSError."""
    doomed = [unfinished(folders)]
    if even_complete:
        doomed.append(complete(folders))
    for path in doomed:
        for suffix in ("", *backups.COMPANIONS):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    if not complete(folders).exists():
        _settings(folders).unlink(missing_ok=True)


def digests(folders: Folders) -> set[str]:
    found: set[str] = set()
    for path, immutable in ((unfinished(folders), False), (complete(folders), True)):
        if path.exists():
            with contextlib.suppress(*ERRORS), closing(read_only(path, immutable)) as connection:
                found |= attachments.digests(connection)
    return found


def take(folders: Folders) -> str | None:
    """Returns the new name of the chats from before, '' without any, None if nothing was restored;
    call before the file of chats is opened. Raises OSError."""
    discard(folders)
    new, settings = complete(folders), _settings(folders)
    if not new.exists():
        return None
    if settings.exists():
        if folders.settings_file.exists():
            kept = backups.unused(folders.settings_file, backups.ASIDE)
            rename(folders.settings_file, kept)
        rename(settings, folders.settings_file)
    if not any(Path(f"{folders.database}{each}").exists() for each in ("", *backups.COMPANIONS)):
        rename(new, folders.database)
        return ""
    _empty_log(folders.database)
    aside = backups.set_aside(folders.database)
    rename(new, folders.database)
    return aside.name


def words_of(aside: str | None) -> str:
    if aside is None:
        return ""
    if not aside:
        return tr("The backup is restored.")
    words = tr("The backup is restored. The chats from before are kept as {name}.")
    return words.format(name=aside)


def _empty_log(path: Path) -> None:
    """The process may end between two renames."""
    with contextlib.suppress(*ERRORS), closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
