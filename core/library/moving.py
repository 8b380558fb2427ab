"""Moves a model's files to another folder, mostly on another disk.

    target/.moving-<digest>/   copies, until each has the digest of its source

A kill leaves the model complete in one of the places: the file that makes a folder a model comes
last, and is deleted first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.api.errors import DiskFullError, MoveError, NotRegularFileError, RequestCancelled
from core.client.blobs import open_regular
from core.library.messages import Move
from core.system.private_files import DISK_IS_FULL, RESERVE_BYTES, create, rename, sync_folder

_BLOCK = 4 * 2**20


@dataclass(frozen=True, slots=True)
class _File:
    source: Path
    place: Path
    size: int
    changed_ns: int

    def is_unchanged(self) -> bool:
        now = self.source.lstat()
        return (now.st_size, now.st_mtime_ns) == (self.size, self.changed_ns)


class Mover:
    """`tell(done, total)` counts bytes twice, when copied and when compared; `stopped` is asked
    until the copies move to their places."""

    def __init__(
        self, move: Move, tell: Callable[[int, int], None], stopped: Callable[[], bool]
    ) -> None:
        self._base, self._target = Path(move.base), Path(move.target)
        self._tell, self._stopped = tell, stopped
        named = hashlib.sha256("\n".join((move.base, *move.files)).encode()).hexdigest()
        self._work = self._target / f".moving-{named[:32]}"
        self._names = move.files
        self._kept = [self._base / name for name in move.kept]
        self._done = self._total = 0

    def run(self) -> None:
        """Raises MoveError, DiskFullError, RequestCancelled, with the source as it was."""
        try:
            with _named_errors():
                files = [self._look(name) for name in self._names]
                shutil.rmtree(self._work, ignore_errors=True)
                missing = [each for each in files if not os.path.lexists(each.place)]
                self._check(files, missing)
                self._copy(missing)
                for each in files:
                    if not each.is_unchanged():
                        raise MoveError(f"{each.source} changed meanwhile.")
                self._put(missing)
        finally:
            shutil.rmtree(self._work, ignore_errors=True)
        self._delete(files)

    def tidy(self) -> None:
        """Remove a killed move's copies, and finish a deletion that it began.

        Raises MoveError while the other disk is away.
        """
        with _named_errors():
            if not self._target.is_dir():
                raise MoveError(f"{self._target} is not there.")
            if self._work.is_dir() and not self._work.is_symlink():
                for copy in list(self._work.iterdir()):
                    if copy.name.isdigit() and copy.is_file():
                        copy.unlink()
                with contextlib.suppress(OSError):  # what else is in it isn't ours
                    self._work.rmdir()
            if os.path.lexists(self._base / self._names[-1]):
                return
            files = [self._look(each) for each in self._names if os.path.lexists(self._base / each)]
            whole = all(os.path.lexists(self._target / each) for each in self._names)
            if whole and all(
                self._digest(each.source) == self._digest(each.place) for each in files
            ):
                self._delete(files)

    def _look(self, name: str) -> _File:
        source, place = self._base / name, self._target / name
        with open_regular(source) as file:
            status = os.fstat(file.fileno())
        if source.is_symlink():
            raise MoveError(f"{source} is a link.")
        # Through a link: what is deleted would be the only copy.
        if place.parent.exists() and place.parent.samefile(source.parent):
            raise MoveError("It is there already.")
        return _File(source, place, status.st_size, status.st_mtime_ns)

    def _check(self, files: list[_File], missing: list[_File]) -> None:
        needed = sum(each.size for each in missing)
        self._total = 2 * sum(each.size for each in files)
        free = shutil.disk_usage(self._target).free
        if needed and not self._is_near() and needed + RESERVE_BYTES > free:
            raise DiskFullError(
                f"The model needs {needed / 1e9:,.1f} GB on the disk of {self._target}, where "
                f"{free / 1e9:,.1f} GB are free."
            )
        for each in files:
            # As an earlier move left it that was ended.
            if each not in missing and self._digest(each.source) != self._digest(each.place):
                raise MoveError(f"{each.place} exists and is another file.")

    def _is_near(self) -> bool:
        return self._base.stat().st_dev == self._target.stat().st_dev

    def _copy(self, missing: list[_File]) -> None:
        self._work.mkdir(mode=0o700)
        if os.path.lexists(self._base / self._work.name):
            raise MoveError("It is there already.")
        for number, each in enumerate(missing):
            copy = self._work / f"{number}"
            if self._is_near():
                with contextlib.suppress(OSError):  # a file system without hard links
                    os.link(each.source, copy)
                    self._advance(2 * each.size)
                    continue
            digest = hashlib.sha256()
            with open_regular(each.source) as source, os.fdopen(create(copy), "wb") as file:
                for block in self._blocks(source.read):
                    digest.update(block)
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            if self._digest(copy) != digest.digest():
                raise MoveError(f"{each.source.name} could not be copied without a fault.")
            os.utime(copy, ns=(each.changed_ns, each.changed_ns))

    def _digest(self, path: Path) -> bytes:
        digest = hashlib.sha256()
        with open_regular(path) as file:
            for block in self._blocks(file.read):
                digest.update(block)
        return digest.digest()

    def _blocks(self, read: Callable[[int], bytes]) -> Iterator[bytes]:
        while block := read(_BLOCK):
            if self._stopped():
                raise RequestCancelled("The model stays where it was.")
            yield block
            self._advance(len(block))

    def _advance(self, num_bytes: int) -> None:
        self._done += num_bytes
        self._tell(min(self._done, self._total), self._total)

    def _put(self, missing: list[_File]) -> None:
        """Replaces no file."""
        for number, each in enumerate(missing):
            each.place.parent.mkdir(parents=True, exist_ok=True)
            copy = self._work / f"{number}"
            try:
                os.link(copy, each.place)
            except OSError:
                if os.path.lexists(each.place):
                    raise
                rename(copy, each.place)
            for folder in each.place.parents:
                sync_folder(folder)
                if folder == self._target:
                    break

    def _delete(self, files: list[_File]) -> None:
        """Leaves `kept` files, and what the system refuses to delete: the copy is complete."""
        for each in reversed(files):
            with contextlib.suppress(OSError):
                if each.source not in self._kept:
                    each.source.unlink()
        for folder in sorted({each.source.parent for each in files}, reverse=True):
            for empty in (folder, *folder.parents):
                if self._base not in empty.parents:
                    break
                with contextlib.suppress(OSError):
                    empty.rmdir()


@contextlib.contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except NotRegularFileError as error:
        raise MoveError("Something else than files is in the model's folder.") from error
    except OSError as error:
        if error.errno in DISK_IS_FULL:
            raise DiskFullError("The other disk is full. The model stays in its place.") from error
        named = f"{error.filename}: " if error.filename else ""
        raise MoveError(f"{named}{error.strerror}. It stays in its place.") from error
