"""Makes, renames, fills and deletes folders of chats, and sets what their new chats begin with."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from PySide6.QtCore import QObject, Signal

from desktop.chat.shown_chat import ShownChat
from desktop.chats.chats import ChatsController
from desktop.i18n import tr
from desktop.presets.chat_settings import ChatSettings
from desktop.services import Services
from desktop.store.tables import folders
from desktop.store.tables.folders import DeletedFolder
from desktop.store.tables.messages import storable
from desktop.store.tables.records import Begin, Folder

P = ParamSpec("P")
T = TypeVar("T")


class FoldersController(QObject):
    # There is a new folder: its id.
    made = Signal(int)
    # A message, and a function that undoes what it is about.
    done = Signal(str, object)

    def __init__(
        self, services: Services, chats: ChatsController, chat: ShownChat, settings: ChatSettings
    ) -> None:
        super().__init__()
        self.chat_list = chats.chat_list
        self._database, self._tasks = services.database, services.tasks
        self._chats, self._chat, self._settings = chats, chat, settings
        self.chat_list.folder_rename_asked.connect(self.rename)
        self.chat_list.fold_asked.connect(self.fold)
        self.chat_list.move_asked.connect(self.move)

    @property
    def presets(self) -> dict[str, Begin]:
        return {each.name: each.begin for each in self._settings.presets.presets}

    @property
    def begin_of_shown(self) -> Begin:
        """What another chat would begin with to be like the shown one."""
        return self._settings.begin

    def place_new_chat(self, folder: Folder | None) -> None:
        self._settings.place_new_chat(folder)

    def make(self, chat: int | None = None) -> None:
        """Make a folder, with this chat in it."""
        self._tasks.spawn(self._make(chat), tr("Making a folder"))

    def rename(self, folder: int, name: str) -> None:
        work = self._change(folders.rename, folder, storable(name))
        self._tasks.spawn(work, tr("Renaming a folder"))

    def fold(self, folder: int, folded: bool) -> None:
        self._tasks.spawn(self._change(folders.fold, folder, folded), tr("Folding a folder"))

    def move(self, chat: int, folder: int | None) -> None:
        """None is out of its folder."""
        self._tasks.spawn(self._change(folders.move, [chat], folder), tr("Moving a chat"))

    def begin_with(self, folder: int, preset: str, begin: Begin | None) -> None:
        """Begin new chats in the folder with a copy of this preset; None is as in no folder."""
        work = self._change(folders.begin_with, folder, preset, begin)
        self._tasks.spawn(work, tr("Storing the defaults of a folder"))

    def delete(self, folder: int) -> None:
        """Its chats stay, in no folder."""
        self._tasks.spawn(self._delete(folder), tr("Deleting a folder"))

    async def _make(self, chat: int | None) -> None:
        names = {each.name for each in self.chat_list.folders.values()}
        name, number = tr("New folder"), 1
        while name in names:
            number += 1
            name = f"{tr('New folder')} {number}"
        made = await self._database.run(folders.create, name)
        if chat is not None:
            await self._database.run(folders.move, [chat], made)
        await self._refresh()
        self.made.emit(made)

    async def _delete(self, folder: int) -> None:
        gone = await self._change(folders.delete, folder)
        if gone is not None:
            said = tr("The folder {name} is deleted. Its chats stay in the list.")
            self.done.emit(said.format(name=gone.folder.name), lambda: self._restore(gone))

    def _restore(self, gone: DeletedFolder) -> None:
        self._tasks.spawn(self._change(folders.restore, gone), tr("Restoring a folder"))

    async def _change(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        found = await self._database.run(work, *args, **kwargs)
        await self._refresh()
        return found

    async def _refresh(self) -> None:
        await self._chats.refresh()
        known, new = self.chat_list.folders, self._chat.new_folder
        if new is not None and known.get(new.id) != new:
            self.place_new_chat(known.get(new.id))
        if self._chats.shown is not None:
            self._chat.look_again(self._chats.shown)
