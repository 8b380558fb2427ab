"""The menus, built from their table of words: every command of the window has an entry in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow

from desktop.widgets.plain import action
from desktop.words.menus import ENTRIES


def add_menus(window: QMainWindow, acts: Mapping[str, Callable[[], object]]) -> dict[str, QAction]:
    """Build the menu bar; `acts` and the actions that come back go by the entries' names."""
    assert acts.keys() == ENTRIES.keys(), "every entry does something, and everything has an entry"
    actions: dict[str, QAction] = {}
    menus = {
        title: window.menuBar().addMenu(title)
        for title in dict.fromkeys(entry.menu for entry in ENTRIES.values())
    }
    for name, entry in ENTRIES.items():
        if entry.parted:
            menus[entry.menu].addSeparator()
        made = actions[name] = action(entry.words, window, acts[name])
        made.setObjectName(name)
        made.setShortcut(QKeySequence(entry.shortcut))
        menus[entry.menu].addAction(made)
    window.menuBar().setObjectName("menuBar")
    window.menuBar().setAccessibleName("Menus")
    return actions
