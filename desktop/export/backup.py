"""Backs everything up to one ZIP, and restores it.

A backup is an exported ZIP with another entry, `backup.json`: counts, by which a restore knows that
nothing is missing, and settings, without those of a computer: model folders, budgets, connections,
keys, tokens. All is checked before the user is asked; the next start puts it in place
(`desktop.store.restored`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from PySide6.QtCore import Signal

from core.api.archive import ArchivedChat, ArchivedFolder, Moment
from core.api.errors import NotAnExportError, WaymarkError
from core.api.params import Frozen
from desktop.chats.chats import ChatsController
from desktop.export.archive import add_folders, read_folders
from desktop.export.export import ExportController
from desktop.export.reading import ChatsFile
from desktop.export.writing import ZipWriter, in_thread
from desktop.i18n import tr
from desktop.numbers import count_of, format_count
from desktop.services import Controller, Services
from desktop.store import restored
from desktop.store.database import Database
from desktop.store.folders import Folders
from desktop.store.settings import AppSettings
from desktop.store.settings_file import read_settings
from desktop.store.tables.fields import LAST_MOMENT

ENTRY = "backup.json"
LARGEST_ENTRY = 16 * 2**20
# Settings that mean the same on every computer, and connect to nothing.
SECTIONS = ("sampling", "thinking", "draft", "ahead", "window", "presets")
SAID_EVERY_S = 0.5


class BackupError(WaymarkError, title="The backup can't be restored"): ...


class BackupInfo(Frozen):
    """`pictures` counts those whose files were there; `folders` may have no chats."""

    waymark_backup: Literal[1] = 1
    made: Moment
    chats: int = Field(ge=0)
    messages: int = Field(ge=0)
    pictures: int = Field(ge=0)
    folders: tuple[ArchivedFolder, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)

    def counts(self) -> str:
        return ", ".join(
            (
                count_of(self.chats, "chat"),
                count_of(self.messages, "message"),
                count_of(self.pictures, "picture"),
            )
        )


class BackupWriter(ZipWriter):
    def __init__(
        self,
        path: Path,
        path_of: Callable[[str], Path],
        folders: tuple[ArchivedFolder, ...],
        settings: AppSettings,
    ) -> None:
        super().__init__(path, path_of)
        self._folders, self._settings = folders, settings
        self._messages = 0

    def add(self, chat: ArchivedChat) -> None:
        super().add(chat)
        self._messages += len(chat.messages)

    def _add_pictures(self) -> None:
        super()._add_pictures()
        info = BackupInfo(
            made=time.time(),
            chats=self._count,
            messages=self._messages,
            pictures=len(self._digests) - self.missing,
            folders=self._folders,
            settings=portable(self._settings),
        )
        self._zip.writestr(ENTRY, info.model_dump_json())


def portable(settings: AppSettings) -> dict[str, Any]:
    return _without_models(settings).model_dump(mode="json", include=set(SECTIONS))


def with_portable(settings: AppSettings, stored: dict[str, Any]) -> AppSettings:
    """Values that can't be read stay as they are."""
    known = {name: value for name, value in stored.items() if name in SECTIONS}
    return _without_models(read_settings(settings, known, []))


def _without_models(settings: AppSettings) -> AppSettings:
    presets = tuple(each.model_copy(update={"model": ""}) for each in settings.presets.presets)
    kept = settings.presets.model_copy(update={"presets": presets})
    return settings.model_copy(update={"presets": kept})


class BackupController(Controller):
    """`checked(words)`: `accept` restores a backup, `decline` doesn't. `checking`: the one before
    can't be restored any more. `ready`: it is in place at the next start."""

    said = Signal(str)
    checking = Signal()
    checked = Signal(str)
    ready = Signal()

    def __init__(
        self,
        services: Services,
        chats: ChatsController,
        export: ExportController,
        folders: Folders,
    ) -> None:
        super().__init__(services)
        self._chats, self._export = chats, export
        self._folders = folders
        # The backup that the user is asked about.
        self._info: BackupInfo | None = None
        self._checks = False

    def back_up(self, path: Path) -> None:
        self._tasks.spawn(self.write(path), tr("Backing up"))

    def restore(self, path: Path) -> None:
        if self._checks:
            self.said.emit(tr("Another backup is being checked."))
            return
        self._tasks.spawn(self._check(path), tr("Restoring a backup"))

    def accept(self) -> None:
        self._tasks.spawn(self._finish(), tr("Restoring a backup"))

    def decline(self) -> None:
        self._info = None
        self._tasks.spawn(self._discard(), tr("Leaving a backup"))

    async def write(self, path: Path) -> None:
        """Raises ExportError, StoreError."""
        chats = [each.id for each in self._chats.chat_list.chats]
        folders = await self._database.run(read_folders)
        settings = self._settings.settings
        kind = partial(BackupWriter, folders=folders, settings=settings)
        await self._export.write(chats, path, kind)
        words = tr("Backed up to {path}: {chats}, with pictures, documents, presets and settings.")
        self.said.emit(words.format(path=path, chats=count_of(len(chats), "chat")))

    async def _check(self, path: Path) -> None:
        self._checks, self._info = True, None
        self.checking.emit()
        try:
            self._info = await self.prepare(path)
        except BaseException as error:
            await self._discard()
            if isinstance(error, NotAnExportError):
                # Nobody asked for an import.
                raise BackupError(error.message) from error
            raise
        finally:
            self._checks = False
        made = datetime.fromtimestamp(min(self._info.made, LAST_MOMENT))
        words = tr(
            "The backup of {moment} is complete: {counts}. Waymark closes now and shows it at the "
            "next start."
        ).format(moment=f"{made:%Y-%m-%d %H:%M}", counts=self._info.counts())
        present = len(self._chats.chat_list.chats) + len(self._chats.trash.chats)
        if present:
            kept = tr("Your present chats ({count}) and settings are kept in {folder}.")
            count, folder = format_count(present), self._folders.data
            words = f"{words} {kept.format(count=count, folder=folder)}"
        self.checked.emit(words)

    async def prepare(self, path: Path) -> BackupInfo:
        """Fill the file that `restored.finish` completes; check that nothing is missing. Raises
        BackupError, NotAnExportError, StoreError, OSError."""
        self.said.emit(tr("Checking {}…").format(path.name))
        try:
            file = await in_thread(partial(ChatsFile, path))
        except OSError as error:
            words = tr("{path} can't be read: {reason}.")
            raise BackupError(words.format(path=path, reason=error.strerror)) from error
        try:
            info = await in_thread(partial(info_of, file))
            await self._discard()
            database = await in_thread(partial(Database, restored.unfinished(self._folders)))
            try:
                await self._fill(database, file, info)
            finally:
                await in_thread(database.close)
        finally:
            file.close()
        return info

    async def _fill(self, database: Database, file: ChatsFile, info: BackupInfo) -> None:
        await database.run(add_folders, info.folders)
        # A file without chats is no export, but may be a backup.
        found = file.chats() if info.chats else iter(())
        chats, messages, digests, said = 0, 0, set[str](), time.monotonic()
        while (each := await in_thread(lambda: next(found, None))) is not None:
            if each.chat is None:
                words = tr("Chat {number} in it can't be read: {title}.")
                raise BackupError(words.format(number=chats + 1, title=each.title or "?"))
            digests.update(await self._export.store(file, each.chat, each.lost, database))
            chats, messages = chats + 1, messages + len(each.chat.messages)
            if time.monotonic() - said > SAID_EVERY_S:
                said = time.monotonic()
                words = tr("Checked {done} of {total} chats…")
                done, total = format_count(chats), format_count(info.chats)
                self.said.emit(words.format(done=done, total=total))
        read = info.model_copy(
            update={"chats": chats, "messages": messages, "pictures": len(digests)}
        )
        # A picture that was missing then may be here.
        if (chats, messages) != (info.chats, info.messages) or len(digests) < info.pictures:
            words = tr("It is not complete. It should hold {wanted}, but holds {read}.")
            raise BackupError(words.format(wanted=info.counts(), read=read.counts()))

    async def _finish(self) -> None:
        info, self._info = self._info, None
        if info is None:
            return
        settings = with_portable(self._settings.settings, info.settings)
        try:
            await in_thread(partial(restored.finish, self._folders, settings))
        except OSError as error:
            words = tr("It could not be stored: {reason}.")
            raise BackupError(words.format(reason=error.strerror)) from error
        self.ready.emit()

    async def _discard(self) -> None:
        await in_thread(partial(restored.discard, self._folders))


def info_of(file: ChatsFile) -> BackupInfo:
    """Raises BackupError, NotAnExportError."""
    if ENTRY not in file.names:
        raise BackupError(
            tr("It is not a backup of Waymark. To add exported chats, use Import chats.")
        )
    try:
        return BackupInfo.model_validate_json(file.read(ENTRY, LARGEST_ENTRY))
    except ValidationError:
        words = tr("{name} in it is damaged, or from a newer version of Waymark.")
        raise BackupError(words.format(name=ENTRY)) from None
