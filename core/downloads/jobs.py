"""Downloads on disk: plans and what has arrived, in a hidden folder next to the models.

    Models/Org/Name/...           complete files only
    Models/.downloads/<digest>/   plan.json, a part and a journal for each file, and `lock`

The window reads and creates them without a process or a network; files move to their places when
all of a model's have their published digests.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from core.api.errors import (
    BrokenConfigError,
    DownloadFolderError,
    HubAnswerError,
    NotRegularFileError,
    WaymarkError,
)
from core.client.lock import lock_file
from core.downloads.messages import Plan
from core.downloads.names import checked_path, checked_repository
from core.downloads.parts import PartFile
from core.model_files import INDEX_BYTES, read_small
from core.system.private_files import rename, sweep, write_whole

log = logging.getLogger(__name__)

HIDDEN = ".downloads"
PLAN, LOCK = "plan.json", "lock"
MOST_JOBS = 1_000


@dataclass(frozen=True, slots=True)
class Job:
    work: Path
    plan: Plan

    @property
    def target(self) -> Path:
        return self.work.parent.parent / self.plan.repository

    @property
    def model(self) -> Path:
        return self.target / self.plan.opens if self.plan.opens else self.target

    def place(self, path: str) -> Path:
        return self.target / checked_path(path)

    def parts(self) -> list[PartFile]:
        return [PartFile(self.work, at, file) for at, file in enumerate(self.plan.files)]

    def received(self) -> int:
        """Bytes that should be on disk, by the journals."""
        parts = self.parts()
        for part in parts:
            part.read_journal()
        return sum(part.received for part in parts)


def create(models: Path, plan: Plan) -> Job:
    """Store a plan, or find its download. Raises DownloadFolderError, HubAnswerError."""
    _check(plan)
    named = f"{plan.repository}\n{plan.commit}\n{plan.choice}\n{plan.opens}"
    work = models / HIDDEN / hashlib.sha256(named.encode()).hexdigest()[:32]
    try:
        models.mkdir(parents=True, exist_ok=True)
        for folder in (work.parent, work):
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder.is_symlink():
                raise DownloadFolderError(f"{folder} is a link.")
        # A damaged plan is written again: pieces count by their digests alone.
        if not _is_readable(work):
            write_whole(work / PLAN, plan.model_dump_json().encode())
    except OSError as error:
        raise DownloadFolderError(f"{error.filename or work}: {error.strerror}.") from error
    return read(work)


def read(work: Path) -> Job:
    """Raises DownloadFolderError, HubAnswerError."""
    try:
        plan = Plan.model_validate_json(read_small(work / PLAN, INDEX_BYTES, BrokenConfigError))
    except (ValidationError, WaymarkError) as error:
        raise DownloadFolderError(f"{work / PLAN} can't be read.") from error
    _check(plan)
    return Job(work, plan)


def _is_readable(work: Path) -> bool:
    with contextlib.suppress(WaymarkError):
        return bool(read(work))
    return False


def unfinished(models: Path) -> list[Job]:
    """Damaged downloads are left out."""
    found = []
    with contextlib.suppress(OSError):
        for work in sorted(islice((models / HIDDEN).iterdir(), MOST_JOBS)):
            with contextlib.suppress(WaymarkError):
                found.append(read(work))
    return found


@contextlib.contextmanager
def claimed(job: Job) -> Iterator[bool]:
    """Keep other processes from downloading or deleting the same; False if one does so now.

    Does nothing on a file system without locks. Raises DownloadFolderError.
    """
    handle: int | None = -1
    try:
        handle = lock_file(job.work / LOCK)
    except FileNotFoundError as error:
        # Another process has just completed or deleted it.
        if not all(os.path.lexists(job.place(file.path)) for file in job.plan.files):
            raise DownloadFolderError("Another Waymark has deleted this download.") from error
    except OSError as error:
        log.info("No lock in %s: %s", job.work, error.strerror)
    try:
        yield handle is not None
    finally:
        if handle is not None and handle >= 0:
            os.close(handle)
        if handle is not None and not (job.work / PLAN).exists():
            _remove_folders(job)


def is_claimed(job: Job) -> bool:
    with contextlib.suppress(WaymarkError), claimed(job) as ours:
        return not ours
    return False


def discard(job: Job) -> None:
    """Raises DownloadFolderError."""
    with claimed(job) as ours:
        if not ours:
            raise DownloadFolderError("Another Waymark is downloading this. Stop it there first.")
        _empty(job)


def _empty(job: Job) -> None:
    try:
        for part in job.parts():
            part.path.unlink(missing_ok=True)
            part.journal.unlink(missing_ok=True)
        sweep(job.work)
        # Last, so that a kill leaves a download that can be discarded again.
        (job.work / PLAN).unlink(missing_ok=True)
    except OSError as error:
        raise DownloadFolderError(f"{error.filename}: {error.strerror}.") from error


def _remove_folders(job: Job) -> None:
    with contextlib.suppress(OSError):
        (job.work / LOCK).unlink(missing_ok=True)
        job.work.rmdir()
        job.work.parent.rmdir()


def publish(job: Job, missing: list[PartFile]) -> None:
    """Move the file that makes a folder a model last.

    Raises DownloadFolderError if anything is in the way.
    """
    for part in missing:
        part.finish()
    for part in missing:
        place = job.place(part.file.path)
        _make_folder(job, place.parent)
        _move(part, place)
    _empty(job)


def in_the_way(path: Path) -> DownloadFolderError:
    return DownloadFolderError(
        f"{path} exists and isn't the published file. Move it away or choose another folder for "
        "models."
    )


def free_bytes(job: Job) -> int:
    try:
        return shutil.disk_usage(job.work).free
    except OSError as error:
        raise DownloadFolderError(f"{job.work}: {error.strerror}.") from error


def _make_folder(job: Job, folder: Path) -> None:
    models = job.work.parent.parent
    try:
        for each in reversed([folder, *folder.relative_to(models).parents]):
            inside = models / each
            inside.mkdir(exist_ok=True)
            if inside != models and inside.is_symlink():
                raise DownloadFolderError(f"{inside} is a link; Waymark doesn't follow it.")
    except OSError as error:
        raise DownloadFolderError(f"{error.filename}: {error.strerror}.") from error


def _move(part: PartFile, place: Path) -> None:
    """Never replaces a file."""
    try:
        os.link(part.path, place)
    except OSError:
        if os.path.lexists(place):
            # Another download of the repository may have brought it meanwhile.
            if not _is_published(part, place):
                raise in_the_way(place) from None
            return
        # A file system without hard links, as on a USB stick.
        try:
            rename(part.path, place)
        except OSError as error:
            raise DownloadFolderError(f"{place}: {error.strerror}.") from error
    else:
        part.path.unlink(missing_ok=True)


def _is_published(part: PartFile, place: Path) -> bool:
    try:
        return part.has_digest(place)
    except (OSError, NotRegularFileError):
        return False


def _check(plan: Plan) -> None:
    checked_repository(plan.repository)
    paths = [checked_path(file.path) for file in plan.files]
    if plan.opens and checked_path(plan.opens) not in paths:
        raise HubAnswerError("The plan of the download names a file that it doesn't fetch.")
    if any(not (file.sha256 or file.git_blob) for file in plan.files):
        raise HubAnswerError("The model server publishes no digest of a file.")
