"""The menus: every command of the window has an entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow

from desktop.i18n import tr
from desktop.widgets.plain import action


class Entry(NamedTuple):
    """A menu entry; `separated` draws a line above it."""

    name: str
    words: str
    shortcut: str = ""
    separated: bool = False


def _entries() -> dict[str, tuple[Entry, ...]]:
    return {
        tr("&Chat"): (
            Entry("actionNewChat", tr("New chat"), "Ctrl+N"),
            Entry("actionAddPictures", tr("Add pictures"), "Ctrl+O"),
            Entry("actionRename", tr("Rename"), "F2", separated=True),
            Entry("actionPin", tr("Pin or unpin"), "Ctrl+P"),
            Entry("actionDelete", tr("Delete")),
            Entry("actionDeleteAll", tr("Delete all data"), separated=True),
            Entry("actionQuit", tr("Quit"), "Ctrl+Q", separated=True),
        ),
        tr("&Reply"): (
            Entry("actionStop", tr("Stop"), "Esc"),
            Entry("actionRegenerate", tr("Another reply"), "Ctrl+R"),
        ),
        tr("&Engine"): (Entry("actionRestart", tr("Restart the engine")),),
        tr("&View"): (
            Entry("actionChats", tr("Chats"), "Ctrl+B"),
            Entry("actionSearchChats", tr("Search chats"), "Ctrl+Shift+F"),
            Entry("actionSide", tr("Right side"), "Ctrl+J"),
            Entry("actionContext", tr("Context"), "Ctrl+1"),
            Entry("actionSettings", tr("Settings"), "Ctrl+2"),
            Entry("actionFind", tr("Find in this chat"), "Ctrl+F"),
            Entry("actionWrite", tr("Write a message"), "Ctrl+L"),
        ),
        tr("&Help"): (
            Entry("actionShortcuts", tr("Keyboard shortcuts"), "F1"),
            Entry("actionAbout", tr("About Waymark")),
        ),
    }


def add_menus(window: QMainWindow, acts: Mapping[str, Callable[[], object]]) -> dict[str, QAction]:
    """Build the menu bar; `acts` and the returned actions are keyed by the entries' names."""
    actions: dict[str, QAction] = {}
    for title, entries in _entries().items():
        menu = window.menuBar().addMenu(title)
        for name, words, shortcut, separated in entries:
            if separated:
                menu.addSeparator()
            made = actions[name] = action(words, window, acts[name])
            made.setObjectName(name)
            made.setShortcut(QKeySequence(shortcut))
            menu.addAction(made)
    assert acts.keys() == actions.keys(), "every entry does something, and everything has an entry"
    window.menuBar().setObjectName("menuBar")
    window.menuBar().setAccessibleName(tr("Menus"))
    return actions
