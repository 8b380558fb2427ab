"""The menus, and the pages of *Help*."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import metadata
from typing import NamedTuple, cast

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QGridLayout, QMainWindow, QVBoxLayout, QWidget

from core.client.programs import RESOURCES
from desktop.engine.engine_status import EngineStatus
from desktop.i18n import tr
from desktop.numbers import family_name, format_count
from desktop.settings.settings import SettingsController
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import column, row, scrolled
from desktop.widgets.plain import Button, Label, action, named
from desktop.window.commands import DEFAULT, ShortcutEdit, name_of, objection


class Entry(NamedTuple):
    """`separated` draws a line above it."""

    name: str
    words: str
    shortcut: str = ""
    separated: bool = False


def _entries() -> dict[str, tuple[Entry, ...]]:
    return {
        tr("&Chat"): (
            Entry("actionNewChat", tr("New chat"), "Ctrl+N"),
            Entry("actionNewFolder", tr("New folder"), "Ctrl+Shift+N"),
            Entry("actionAddPictures", tr("Add pictures or documents…"), "Ctrl+O"),
            Entry("actionAddFolder", tr("Add a folder of documents…")),
            Entry("actionAddScreen", tr("Add a part of the screen…")),
            Entry("actionRename", tr("Rename"), "F2", separated=True),
            Entry("actionPin", tr("Pin or unpin"), "Ctrl+D"),
            Entry("actionMove", tr("Move to folder…")),
            Entry("actionDelete", tr("Delete")),
            Entry("actionExport", tr("Export this chat…"), separated=True),
            Entry("actionExportAll", tr("Export all chats…")),
            Entry("actionImport", tr("Import chats…")),
            Entry("actionPrint", tr("Print…"), "Ctrl+P"),
            Entry("actionBackUp", tr("Back up everything…"), separated=True),
            Entry("actionRestore", tr("Restore a backup…")),
            Entry("actionDeleteAll", tr("Delete all data"), separated=True),
            Entry("actionQuit", tr("Quit"), "Ctrl+Q", separated=True),
        ),
        tr("&Reply"): (
            Entry("actionStop", tr("Stop"), "Esc"),
            Entry("actionRegenerate", tr("Write another reply"), "Ctrl+R"),
            Entry("actionBefore", tr("Show the previous version"), "Ctrl+PgUp"),
            Entry("actionAfter", tr("Show the next version"), "Ctrl+PgDown"),
            Entry("actionEdit", tr("Edit the last message"), "Ctrl+E"),
        ),
        tr("&Engine"): (
            Entry("actionModels", tr("Models…"), "Ctrl+M"),
            Entry("actionCompare", tr("Compare two models…")),
            Entry("actionEject", tr("Eject the model")),
            Entry("actionGetModel", tr("Get a model…"), separated=True),
            Entry("actionServer", tr("Local server…")),
            Entry("actionServers", tr("Servers…")),
            Entry("actionRestart", tr("Restart the engine"), separated=True),
        ),
        tr("&View"): (
            Entry("actionPalette", tr("All actions…"), "Ctrl+K"),
            Entry("actionChats", tr("Chats"), "Ctrl+B"),
            Entry("actionSearchChats", tr("Search titles"), "Ctrl+Shift+T"),
            Entry("actionSearchMessages", tr("Search all chats…"), "Ctrl+Shift+F"),
            Entry("actionSide", tr("Right side"), "Ctrl+J"),
            Entry("actionContext", tr("Context"), "Ctrl+1"),
            Entry("actionSettings", tr("Settings"), "Ctrl+2"),
            Entry("actionFind", tr("Find in this chat"), "Ctrl+F"),
            Entry("actionWrite", tr("Write a message"), "Ctrl+L"),
            Entry("actionLarger", tr("Larger text"), "Ctrl++", separated=True),
            Entry("actionSmaller", tr("Smaller text"), "Ctrl+-"),
            Entry("actionUsualSize", tr("Default text size"), "Ctrl+0"),
        ),
        tr("&Help"): (
            Entry("actionShortcuts", tr("Keyboard shortcuts"), "F1"),
            Entry("actionAbout", tr("About Waymark")),
        ),
    }


def add_menus(window: QMainWindow, acts: Mapping[str, Callable[[], object]]) -> dict[str, QAction]:
    """Both mappings are keyed by the entries' names."""
    actions: dict[str, QAction] = {}
    for title, entries in _entries().items():
        menu = window.menuBar().addMenu(title)
        for name, words, shortcut, separated in entries:
            if separated:
                menu.addSeparator()
            made = actions[name] = action(words, window, acts[name], name)
            made.setProperty(DEFAULT, shortcut)
            menu.addAction(made)
    assert acts.keys() == actions.keys(), "every entry does something, and everything has an entry"
    named(window.menuBar(), "menuBar", tr("Menus"))
    return actions


WIDTH, HEIGHT = 460, 520


@cache
def licences() -> dict[str, str]:
    return tomllib.loads((RESOURCES / "licences.toml").read_text(encoding="utf-8"))


def diagnostics(status: EngineStatus) -> dict[str, str]:
    """For a bug report: no paths, and nothing of any chat."""
    model = status.model
    load = model.load if model else None
    unknown = tr("not known")
    facts = {
        "Waymark": version("waymark"),
        "Python": platform.python_version(),
        "Qt": version("PySide6_Essentials"),
        "torch": version("torch"),
        tr("System"): platform.platform(),
        tr("Processor level"): (load.processor if load else "") or unknown,
        tr("Kernels"): (load.kernels if load else "") or unknown,
        tr("Engine"): status.words(),
    }
    if model is not None:
        facts[tr("Model")] = tr(
            "{family}, {parameters} parameters, {tokens} tokens of context"
        ).format(
            family=family_name(model.family),
            parameters=format_count(model.num_parameters),
            tokens=format_count(model.context_length),
        )
        if model.load.slowed_by:
            facts[tr("Slowed by")] = model.load.slowed_by
    return facts


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return tr("not known")


class _Page(Dialog):
    def __init__(self, title: str, name: str, parent: QWidget) -> None:
        super().__init__(name, title, parent, once=True)
        content = QWidget()
        self.inside = column(of=content, margins=(0, 0, 8, 0))
        close = Button(tr("Close"), name="helpClose")
        close.clicked.connect(self.close)
        self.buttons = row(None, close)
        parts = (Label(title, style="title"), (scrolled(content, f"{name}Scroll"), 1), self.buttons)
        column(*parts, of=self, margins=(20, 16, 20, 16), spacing=12)
        self.fit(WIDTH, HEIGHT)

    def add_pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        grid = QGridLayout()
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(1, 1)
        top = Qt.AlignmentFlag.AlignTop
        for line, (name, value) in enumerate(pairs):
            grid.addWidget(Label(name, style="label"), line, 0, top)
            grid.addWidget(Label(value, wraps=True, selectable=True), line, 1, top)
        self.inside.addLayout(grid)


class ShortcutsDialog(_Page):
    def __init__(
        self,
        actions: Mapping[str, QAction],
        menus: Sequence[QAction],
        settings: SettingsController,
        parent: QWidget,
    ) -> None:
        super().__init__(tr("Keyboard shortcuts"), "shortcutsDialog", parent)
        self._actions, self._menus, self._settings = actions, menus, settings
        words = tr("Press the new keys in a field. The cross or Backspace removes them.")
        self.inside.addWidget(Label(words, style="muted", wraps=True))
        self._note = Label(name="shortcutNote", style="warning small", wraps=True)
        self._edits: dict[str, ShortcutEdit] = {}
        grid = QGridLayout()
        grid.setHorizontalSpacing(18)
        grid.setColumnStretch(0, 1)
        for line, (name, act) in enumerate(actions.items()):
            edit = self._edits[name] = ShortcutEdit(act)
            edit.keySequenceChanged.connect(partial(self._change, name))
            grid.addWidget(Label(name_of(act), wraps=True, selectable=False), line, 0)
            grid.addWidget(edit, line, 1)
        self.inside.addLayout(grid)
        self.inside.addWidget(Label(tr("Keys that can't be changed"), style="heading"))
        self.add_pairs(_other_keys())
        self.inside.addStretch(1)
        reset = Button(tr("Restore all"), name="shortcutsReset")
        reset.clicked.connect(self._reset)
        self.buttons.insertWidget(0, reset)
        cast(QVBoxLayout, self.layout()).insertWidget(2, self._note)

    def _change(self, name: str, keys: QKeySequence) -> None:
        act = self._actions[name]
        if keys == act.shortcut():
            return
        why = objection(keys, act, [*self._actions.values(), *self._menus])
        self._note.setText(why)
        if why:
            self._edits[name].setKeySequence(act.shortcut())
            return
        chosen = {**self._settings.settings.window.shortcuts, name: keys.toString()}
        if keys.toString() == act.property(DEFAULT):
            del chosen[name]
        self._settings.set_shortcuts(chosen)

    def _reset(self) -> None:
        self._note.setText("")
        self._settings.set_shortcuts({})
        for name, edit in self._edits.items():
            edit.setKeySequence(self._actions[name].shortcut())


def _other_keys() -> Sequence[tuple[str, str]]:
    return (
        ("Enter", tr("Send the message")),
        ("Shift+Enter", tr("Start a new line")),
        ("Ctrl+A, Ctrl+C", tr("Select all text of a message, copy the selection")),
        ("Ctrl+V", tr("Paste text, files or a picture")),
        ("F2, Delete", tr("Rename or delete the selected chat")),
        ("Space, Delete", tr("Open a picture, remove it from the draft")),
        ("F, 1", tr("In the large picture: fit, actual size")),
        ("Left, Right", tr("In the large picture: previous, next")),
        ("Ctrl+C, Ctrl+S", tr("In the large picture: copy, save")),
    )


class AboutDialog(_Page):
    def __init__(self, facts: dict[str, str], parent: QWidget) -> None:
        super().__init__(tr("About Waymark"), "aboutDialog", parent)
        self._facts = facts
        about = tr(
            "Chat with a model on this computer. Nothing you write leaves it unless you use a "
            "server that you added."
        )
        self.inside.addWidget(Label(about, wraps=True))
        self.add_pairs(list(facts.items()))
        self.inside.addWidget(Label(tr("Licences"), style="heading"))
        self.add_pairs(list(licences().items()))
        self.inside.addStretch(1)
        self._copy = Button(tr("Copy diagnostics"), name="copyDiagnostics")
        self._copy.clicked.connect(self._on_copy)
        self.buttons.insertWidget(1, self._copy)

    def _on_copy(self) -> None:
        text = "\n".join(f"{name}: {value}" for name, value in self._facts.items())
        QGuiApplication.clipboard().setText(text)
        self._copy.set_words(tr("Copied"))
