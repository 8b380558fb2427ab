"""Backups of the file of chats and files set aside: named by date, kept beside it.

    chats.copy-DATE.db      the backup of a day, or from before a migration; the newest two are kept
    chats.damaged-DATE.db   what was damaged, as it was, with its log
    chats.aside-DATE.db     put aside by the user to begin with empty chats

Deleting a chat for good deletes backups and damaged files too, since they may hold the chat. A file
that the user put aside stays.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Collection
from contextlib import closing
from datetime import datetime
from pathlib import Path

from core.system.private_files import create, rename, sync_folder

COPY, DAMAGED, ASIDE = "copy", "damaged", "aside"
UNFINISHED = "unfinished"
KEPT_COPIES = 2
DAY_S = 86_400.0
LOG = "-wal"
COMPANIONS = (LOG, "-shm", "-journal")


def is_due(path: Path) -> bool:
    """True if no backup was made in the last 24 hours, or the clock was ahead then."""
    newest = next(iter(backups(path)), None)
    return newest is None or not 0 <= time.time() - newest.stat().st_mtime < DAY_S


def backups(path: Path) -> list[Path]:
    """All backups, the newest first."""
    found = (each for each in _of_kind(path, COPY) if each.suffix == path.suffix)
    return sorted(found, reverse=True)


def make(connection: sqlite3.Connection, path: Path) -> None:
    """Make a backup of the open file, whole or not at all, and delete all but the newest two.

    A damaged file is not backed up, since that would push out a whole backup. Raises sqlite3.Error
    or OSError when the disk refuses.
    """
    try:
        new = begin(path)
        with closing(sqlite3.connect(new)) as target:
            connection.backup(target)
            (verdict,) = target.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError("the backup is damaged")
        rename(new, unused(path, COPY))
    except Exception:
        clear_unfinished(path)
        raise
    for old in backups(path)[KEPT_COPIES:]:
        old.unlink()


def begin(path: Path) -> Path:
    """Create an empty, private file that gets its name when it is complete."""
    new = path.with_name(f"{path.stem}.{UNFINISHED}{path.suffix}")
    clear_unfinished(path)
    os.close(create(new))
    return new


def clear_unfinished(path: Path) -> None:
    """Delete what a backup or a salvage that was cut off has left."""
    for left in path.parent.glob(f"{path.stem}.{UNFINISHED}{path.suffix}*"):
        left.unlink()


def exchange(path: Path, new: Path) -> Path:
    """Replace the damaged file by `new` and keep it under another name; returns that.

    It has both names before it is replaced, so a crash loses nothing.
    """
    kept = unused(path, DAMAGED)
    for suffix in ("", LOG):
        part = Path(f"{path}{suffix}")
        if part.exists() and (suffix == "" or part.stat().st_size):
            _name_also(part, Path(f"{kept}{suffix}"))
    # SQLite would write an old log into the new file.
    for suffix in COMPANIONS:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    rename(new, path)
    return kept


def set_aside(path: Path) -> Path:
    """Rename the file and its companions; returns the new name."""
    kept = unused(path, ASIDE)
    for suffix in ("", *COMPANIONS):
        if Path(f"{path}{suffix}").exists():
            rename(Path(f"{path}{suffix}"), Path(f"{kept}{suffix}"))
    return kept


def copies(path: Path) -> set[Path]:
    """All backups and damaged files of `path`, with their logs."""
    return _of_kind(path, COPY) | _of_kind(path, DAMAGED)


def remove(path: Path, spare: Collection[Path] = ()) -> None:
    """Delete backups and damaged files but `spare`. Raises OSError when the system refuses."""
    _delete(copies(path).difference(spare))


def remove_all(path: Path) -> None:
    """Delete also what was put aside. Raises OSError when the system refuses."""
    _delete(copies(path) | _of_kind(path, ASIDE))


def names_pictures(path: Path) -> bool:
    """True if a file is kept that may show pictures of no other chat."""
    return bool(_of_kind(path, DAMAGED) | _of_kind(path, ASIDE))


def _delete(files: Collection[Path]) -> None:
    """Delete what can be deleted, then raise the first error."""
    errors: list[OSError] = []
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            errors.append(error)
    for folder in {file.parent for file in files}:
        sync_folder(folder)
    if errors:
        raise errors[0]


def _of_kind(path: Path, kind: str) -> set[Path]:
    return set(path.parent.glob(f"{path.stem}.{kind}-*"))


def unused(path: Path, kind: str) -> Path:
    """An unused name with the date; later names sort after it."""
    while True:
        name = f"{path.stem}.{kind}-{_now():%Y%m%d-%H%M%S-%f}{path.suffix}"
        if not any(path.with_name(f"{name}{suffix}").exists() for suffix in ("", LOG)):
            return path.with_name(name)


def _now() -> datetime:
    return datetime.now()


def _name_also(path: Path, kept: Path) -> None:
    """Link a file to a second name; copy it if the file system has no links."""
    try:
        os.link(path, kept)
    except OSError:
        try:
            shutil.copy2(path, kept)
        except OSError:
            kept.unlink(missing_ok=True)
            raise
