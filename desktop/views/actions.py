"""Every command of the menus in one table: its name, words, shortcut, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow

from desktop.views.plain import action


@dataclass(frozen=True, slots=True)
class Command:
    """A menu's entry; `name` is the action's objectName, an empty shortcut is none."""

    menu: str
    name: str
    words: str
    shortcut: str
    act: Callable[[], object]


def add_menus(window: QMainWindow, commands: tuple[Command, ...]) -> dict[str, QAction]:
    """Build the menu bar from a table; returns the actions by name."""
    actions: dict[str, QAction] = {}
    for title in dict.fromkeys(command.menu for command in commands):
        menu = window.menuBar().addMenu(title)
        for command in commands:
            if command.menu == title:
                made = actions[command.name] = action(command.words, window, command.act)
                made.setObjectName(command.name)
                made.setShortcut(QKeySequence(command.shortcut))
                menu.addAction(made)
    window.menuBar().setObjectName("menuBar")
    window.menuBar().setAccessibleName("Menus")
    return actions
