"""Backups of the file of chats, and files set aside, in the same folder.

    chats.copy-DATE.db      the newest two backups, daily or from before a migration
    chats.damaged-DATE.db   a damaged file as it was, with its log
    chats.aside-DATE.db     put aside by the user to begin with empty chats

Deleting a chat for good deletes the first two, since they may contain the chat.
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
KEPT_BACKUPS = 2
DAY_S = 86_400.0
LOG = "-wal"
COMPANIONS = (LOG, "-shm", "-journal")


def is_due(path: Path) -> bool:
    """True also if the newest backup is from the future."""
    newest = next(iter(backups(path)), None)
    return newest is None or not 0 <= time.time() - newest.stat().st_mtime < DAY_S


def backups(path: Path) -> list[Path]:
    """Newest first."""
    found = (each for each in _of_kinds(path, COPY) if each.suffix == path.suffix)
    return sorted(found, reverse=True)


def make(connection: sqlite3.Connection, path: Path) -> None:
    """Keep the newest two; never back up a damaged file, which would push out a whole one.

    Raises sqlite3.Error or OSError.
    """
    try:
        new = begin(path)
        with closing(sqlite3.connect(new)) as target:
            connection.backup(target)
            (verdict,) = target.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError("the backup is damaged")
        made = unused(path, COPY)
        rename(new, made)
    except Exception:
        clear_unfinished(path)
        raise
    kept = backups(path)
    at = kept.index(made)
    # Those with later names are of a clock that was ahead, or that is behind now.
    for old in [*kept[at:], *reversed(kept[:at])][KEPT_BACKUPS:]:
        old.unlink()


def begin(path: Path) -> Path:
    """Create an empty, private file to rename when it is complete."""
    new = path.with_name(f"{path.stem}.{UNFINISHED}{path.suffix}")
    clear_unfinished(path)
    os.close(create(new))
    return new


def clear_unfinished(path: Path) -> None:
    for left in path.parent.glob(f"{path.stem}.{UNFINISHED}{path.suffix}*"):
        left.unlink()


def exchange(path: Path, new: Path) -> Path:
    """Replace the damaged file by `new`; returns its new name.

    It has both names before that, so a crash loses nothing.
    """
    kept = unused(path, DAMAGED)
    for suffix in ("", LOG):
        part, also = Path(f"{path}{suffix}"), Path(f"{kept}{suffix}")
        if part.exists() and (suffix == "" or part.stat().st_size):
            try:
                os.link(part, also)
            except OSError:  # a file system without links
                _copy_whole(part, also)
    # SQLite would write an old log into the new file.
    for suffix in COMPANIONS:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    rename(new, path)
    return kept


def _copy_whole(file: Path, new: Path) -> None:
    try:
        shutil.copy2(file, new)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def set_aside(path: Path) -> Path:
    """Returns the new name; backups are set aside too."""
    # They would be taken for backups of the new file, whose ids begin at 1 again.
    for backup in backups(path):
        rename(backup, unused(path, ASIDE))
    kept = unused(path, ASIDE)
    for suffix in ("", *COMPANIONS):
        if Path(f"{path}{suffix}").exists():
            rename(Path(f"{path}{suffix}"), Path(f"{kept}{suffix}"))
    return kept


def copies(path: Path) -> set[Path]:
    return _of_kinds(path, COPY, DAMAGED)


def remove(path: Path, spare: Collection[Path] = (), aside: bool = False) -> None:
    """Delete all copies but `spare`, with `aside` also files put aside; raises the first OSError at
    the end."""
    errors: list[OSError] = []
    doomed = copies(path).difference(spare) | (_of_kinds(path, ASIDE) if aside else set())
    for file in doomed:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            errors.append(error)
    if doomed:
        sync_folder(path.parent)
    if errors:
        raise errors[0]


def names_pictures(path: Path) -> bool:
    """True if a kept file may show pictures of no other chat."""
    return bool(_of_kinds(path, DAMAGED, ASIDE))


def unused(path: Path, kind: str) -> Path:
    """Later names sort after it."""
    while True:
        name = f"{path.stem}.{kind}-{datetime.now():%Y%m%d-%H%M%S-%f}{path.suffix}"
        if not any(path.with_name(f"{name}{suffix}").exists() for suffix in ("", LOG)):
            return path.with_name(name)


def _of_kinds(path: Path, *kinds: str) -> set[Path]:
    return {each for kind in kinds for each in path.parent.glob(f"{path.stem}.{kind}-*")}
