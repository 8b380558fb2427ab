"""Folders of chats, and their menus."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QWidget

from desktop.chat.shown_chat import ShownChat
from desktop.chats.chats import ChatsController
from desktop.i18n import tr
from desktop.presets import ChatSettings
from desktop.services import Controller, Services
from desktop.store.tables import folders
from desktop.store.tables.folders import DeletedFolder
from desktop.store.tables.records import Begin, Chat, Folder
from desktop.widgets.plain import action, named

P = ParamSpec("P")
T = TypeVar("T")


class FoldersController(Controller):
    # There is a new folder: its id.
    made = Signal(int)
    # A message, and a function that undoes what it is about.
    done = Signal(str, object)

    def __init__(
        self, services: Services, chats: ChatsController, chat: ShownChat, settings: ChatSettings
    ) -> None:
        super().__init__(services)
        self.chat_list = chats.chat_list
        self._chats, self._chat, self.settings = chats, chat, settings
        self.chat_list.folder_rename_asked.connect(self.rename)
        self.chat_list.fold_asked.connect(self.fold)
        self.chat_list.move_asked.connect(self.move)

    def make(self, chat: int | None = None) -> None:
        self._tasks.spawn(self._make(chat), tr("Making a folder"))

    def rename(self, folder: int, name: str) -> None:
        self._tasks.spawn(self._change(folders.rename, folder, name), tr("Renaming a folder"))

    def fold(self, folder: int, folded: bool) -> None:
        self._tasks.spawn(self._change(folders.fold, folder, folded), tr("Folding a folder"))

    def move(self, chat: int, folder: int | None) -> None:
        """None is out of its folder."""
        self._tasks.spawn(self._move(chat, folder), tr("Moving a chat"))

    def begin_with(self, folder: int, preset: str, begin: Begin | None) -> None:
        """A copy of this preset for new chats; None for those of no folder."""
        work = self._change(folders.begin_with, folder, preset, begin)
        self._tasks.spawn(work, tr("Storing the defaults of a folder"))

    def delete(self, folder: int) -> None:
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

    async def _move(self, chat: int, folder: int | None) -> None:
        before = self.chat_list.chat_of(chat)
        await self._change(folders.move, [chat], folder)
        if before is not None and before.pinned and folder in self.chat_list.folders:
            # The list looks as before.
            said = tr("Moved to {folder}. It is listed at the top, because it is pinned.")
            name = self.chat_list.folders[folder].name
            self.done.emit(said.format(folder=name), lambda: self.move(chat, before.folder))

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
            self.settings.place_new_chat(known.get(new.id))
        if self._chats.shown is not None:
            self._chat.look_again(self._chats.shown)


class MoveMenu(QMenu):
    def __init__(self, folders: FoldersController, parent: QWidget) -> None:
        super().__init__(tr("Move to folder"), parent)
        self.setObjectName("moveMenu")
        self._folders = folders

    def offer(self, chat: Chat) -> None:
        self.clear()
        for folder in self._folders.chat_list.folders.values():
            self._add(folder.name, chat, folder.id)
        self._add(tr("No folder"), chat, None)
        self.addSeparator()
        make = action(tr("New folder"), self, lambda: self._folders.make(chat.id))
        self.addAction(make)

    def _add(self, words: str, chat: Chat, folder: int | None) -> None:
        _choice(self, words, chat.folder == folder, lambda: self._folders.move(chat.id, folder))


class FolderMenu(QMenu):
    # Edit the name of this folder, or begin a new chat in it: its id.
    rename_asked = Signal(int)
    new_asked = Signal(int)

    def __init__(self, folders: FoldersController, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("folderMenu")
        self._folders = folders
        self._begin = named(QMenu(tr("New chats begin with"), self), "folderBegin")

    def offer(self, folder: Folder) -> None:
        self.clear()
        self._offer_begins(folder)
        new = action(tr("New chat in this folder"), self, lambda: self.new_asked.emit(folder.id))
        rename = action(tr("Rename"), self, lambda: self.rename_asked.emit(folder.id))
        words = tr("Delete the folder, keep its chats")
        delete = action(words, self, lambda: self._folders.delete(folder.id))
        self.addAction(new)
        self.addMenu(self._begin)
        self.addActions([rename, delete])

    def _offer_begins(self, folder: Folder) -> None:
        own, settings = folder.begin, self._folders.settings
        presets = {each.name: each.begin for each in settings.presets.presets}
        self._begin.clear()
        self._add(tr("The default for new chats"), folder, "", None, own is None)
        if own is not None and presets.get(folder.preset) != own:
            # A chat's, or of a preset that was changed or deleted since.
            words = folder.preset or tr("The settings of a chat")
            self._add(tr("{name}, as it was chosen").format(name=words), folder, "", own, True)
        for name, begin in presets.items():
            self._add(name, folder, name, begin, own == begin and folder.preset == name)
        self._begin.addSeparator()
        like = tr("The settings of the chat on screen")
        self._add(like, folder, "", settings.begin, False)

    def _add(
        self, words: str, folder: Folder, preset: str, begin: Begin | None, chosen: bool
    ) -> None:
        def choose() -> None:
            if not chosen:
                self._folders.begin_with(folder.id, preset, begin)

        _choice(self._begin, words, chosen, choose)


def _choice(menu: QMenu, words: str, chosen: bool, act: Callable[[], object]) -> None:
    entry = action(words, menu, act)
    entry.setCheckable(True)
    entry.setChecked(chosen)
    menu.addAction(entry)
