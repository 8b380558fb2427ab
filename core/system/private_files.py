"""Private folders and files, and files written whole or not at all.

POSIX permissions only: Windows keeps other users out of the user's profile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Prefix of temporary names; such a file was left by a process that was killed.
UNFINISHED = ".new-"
# Root, in a user namespace that doesn't map it.
_UNMAPPED = 65534
_MOST_LINKS = 40
# Windows opens files as text, and lets child processes inherit them, unless told otherwise.
_PLAIN = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# Left free on a disk, for the system and for chats.
RESERVE_BYTES = 256 * 2**20
DISK_IS_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


class NotPrivateError(OSError):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.EPERM, why, str(path))


def private_folder(folder: Path, given: bool = False) -> None:
    """Create a folder and its missing parents closed to other users. An existing one that others
    may read is closed, unless `given` by the user. Raises OSError, and NotPrivateError if another
    user owns it, may write into it or could replace it."""
    # mkdir gives its mode to the last folder alone.
    for missing in reversed([each for each in folder.parents if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if sys.platform == "win32":
        return
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotPrivateError(folder, "it is a link or not a folder")
    # Root may use another user's folder if asked to.
    if status.st_uid != os.geteuid() and not (given and os.geteuid() == 0):
        raise NotPrivateError(folder, "it belongs to another user")
    if not given and stat.S_IMODE(status.st_mode) != 0o700:
        with contextlib.suppress(OSError):  # a file system without permissions, as on a USB stick
            folder.chmod(0o700)
        status = folder.lstat()
    if _others_may_write(status):
        raise NotPrivateError(folder, "other users may write into it (chmod go-w would end that)")
    _judge_way(folder)


def create(path: Path) -> int:
    """Raises FileExistsError, also for a link."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK | _PLAIN, 0o600)


def open_or_create(path: Path, flags: int = os.O_WRONLY) -> int:
    """Raises OSError for a link."""
    return os.open(path, flags | os.O_CREAT | NO_LINK | _PLAIN, 0o600)


def write_whole(path: Path, data: bytes) -> None:
    """Atomic and durable. On OSError the old file stays."""
    new = path.with_name(f"{UNFINISHED}{secrets.token_hex(8)}")
    handle = create(new)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        rename(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Delete a killed process's unfinished files; call while nobody writes there."""
    left = list(folder.glob(f"{UNFINISHED}*"))
    for path in left:
        path.unlink(missing_ok=True)
    if left:
        sync_folder(folder)


def rename(source: Path, target: Path) -> None:
    os.replace(source, target)
    sync_folder(target.parent)


def sync_folder(folder: Path, sync: Callable[[int], None] | None = None) -> None:
    if sys.platform == "win32":
        return  # a folder can't be opened there; NTFS journals names by itself
    handle = os.open(folder, os.O_RDONLY)
    try:
        (sync or os.fsync)(handle)
    except OSError as error:
        # Some network file systems can't sync folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def _judge_way(folder: Path) -> None:
    if sys.platform == "win32":
        return
    us = os.geteuid()
    for path in _way_to(folder):
        status = path.lstat()
        # Only a link's owner matters; in a sticky folder others can't rename files.
        closed = stat.S_ISLNK(status.st_mode) or bool(status.st_mode & stat.S_ISVTX)
        if us and status.st_uid not in (0, us, _UNMAPPED):
            raise NotPrivateError(path, "it belongs to another user, who could replace a folder")
        if not closed and _others_may_write(status):
            raise NotPrivateError(path, "other users may write into it and could replace a folder")


def _way_to(folder: Path) -> Iterator[Path]:
    """Every folder above `folder` and every link on the way, as the system resolves them."""
    first, *rest = folder.parent.absolute().parts
    at, parts, links = Path(first), rest[::-1], 0
    yield at
    while parts:
        part = parts.pop()
        step = at.parent if part == ".." else at / part
        yield step
        if not step.is_symlink():
            at = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
        target = step.readlink()
        parts += [part for part in target.parts if part != target.anchor][::-1]
        at = Path(target.anchor) if target.is_absolute() else at


def _others_may_write(status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_our_own_group(status.st_gid)


def _is_our_own_group(group: int) -> bool:
    """Root's group, or one of this user alone, as many systems create."""
    if sys.platform == "win32" or group == 0:
        return True
    import grp
    import pwd

    try:
        us, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == us.pw_name and set(found.gr_mem) <= {us.pw_name}
