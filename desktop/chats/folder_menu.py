"""The menus of a folder, and of the folders that a chat can be moved to."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from desktop.chats.folders import FoldersController
from desktop.i18n import tr
from desktop.store.tables.records import Begin, Chat, Folder
from desktop.widgets.plain import action, named


class MoveMenu(QMenu):
    """Call `offer` before it is shown."""

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
    """Call `offer` before it is shown."""

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
        own, presets = folder.begin, self._folders.presets
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
        begin = self._folders.begin_of_shown
        self._add(like, folder, "", begin, False)

    def _add(
        self, words: str, folder: Folder, preset: str, begin: Begin | None, chosen: bool
    ) -> None:
        def choose() -> None:
            if not chosen:
                self._folders.begin_with(folder.id, preset, begin)

        _choice(self._begin, words, chosen, choose)


def _choice(menu: QMenu, words: str, chosen: bool, act: Callable[[], object]) -> QAction:
    entry = action(words, menu, act)
    entry.setCheckable(True)
    entry.setChecked(chosen)
    menu.addAction(entry)
    return entry
