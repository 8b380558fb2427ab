"""The palette of all actions, and shortcuts that the user may change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QApplication,
    QHeaderView,
    QKeySequenceEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from desktop.i18n import tr
from desktop.numbers import BETWEEN
from desktop.search.folding import fold
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import column
from desktop.widgets.plain import named
from desktop.widgets.search_field import SearchField

WIDTH, HEIGHT = 620, 420
MOVES = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
ITEM = Qt.ItemDataRole.UserRole
NATIVE = QKeySequence.SequenceFormat.NativeText
DEFAULT = "defaultShortcut"
# Property of an action: the reason why it is disabled.
WHY_NOT = "whyNot"
# The same key without Shift on many keyboards.
TWINS = {"Ctrl++": "Ctrl+="}
EDITS_TEXT = (
    "Ctrl+A",
    "Ctrl+C",
    "Ctrl+V",
    "Ctrl+Shift+V",
    "Ctrl+X",
    "Ctrl+Y",
    "Ctrl+Z",
    "Ctrl+Shift+Z",
)
# With Ctrl, Alt or Meta, or a key that types nothing.
USABLE = re.compile(r"(Shift\+)?(Ctrl|Alt|Meta)\+|(Shift\+)?(F\d+|Esc)$")


class CommandPalette(Dialog):
    """Disabled actions tell why."""

    def __init__(self, actions: Mapping[str, Sequence[QAction]], parent: QWidget) -> None:
        super().__init__("commandPalette", tr("All actions"), parent, once=True)
        self._actions = [(menu, each) for menu, found in actions.items() for each in found]
        self.field = SearchField("paletteText", tr("Find an action"))
        self._list = named(QTreeWidget(), "paletteList", tr("Actions"))
        self._list.setColumnCount(3)
        self._list.setHeaderHidden(True)
        self._list.setRootIsDecorated(False)
        self._list.setUniformRowHeights(True)
        self._list.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._list.header().setStretchLastSection(False)
        self._list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for section in (1, 2):
            mode = QHeaderView.ResizeMode.ResizeToContents
            self._list.header().setSectionResizeMode(section, mode)
        column(self.field, (self._list, 1), of=self, margins=(12, 12, 12, 12), spacing=8)
        self.fit(WIDTH, HEIGHT)
        self.field.textChanged.connect(self._show)
        self.field.left.connect(self.close)
        self._list.itemActivated.connect(self._act)
        self._list.itemClicked.connect(self._act)
        self.field.installEventFilter(self)
        self._show("")
        self.field.setFocus()

    def _show(self, typed: str) -> None:
        ranked = [
            # Letters apart from each other come last.
            ((found[0] > 1, not act.isEnabled(), found, place), menu, act)
            for place, (menu, act) in enumerate(self._actions)
            if not act.isSeparator()
            if (found := rank(typed, f"{name_of(act)} {menu}")) is not None
        ]
        self._list.clear()
        for _order, menu, act in sorted(ranked, key=lambda each: each[0]):
            # Only a disabled one has a reason.
            words = BETWEEN.join(filter(None, (name_of(act), act.property(WHY_NOT))))
            item = QTreeWidgetItem([words, menu, act.shortcut().toString(NATIVE)])
            item.setData(0, ITEM, act)
            item.setDisabled(not act.isEnabled())
            self._list.addTopLevelItem(item)
        if not ranked:
            none = QTreeWidgetItem([tr("No action has this name")])
            none.setDisabled(True)
            self._list.addTopLevelItem(none)
        if (first := self._list.topLevelItem(0)) is not None:
            self._list.setCurrentItem(first)

    def _act(self, item: QTreeWidgetItem | None) -> None:
        act = item.data(0, ITEM) if item is not None else None
        if isinstance(act, QAction) and act.isEnabled():
            self.close()
            # What it opens must not be below this window.
            QTimer.singleShot(0, act, act.trigger)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in MOVES:
                QApplication.sendEvent(self._list, event)
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._act(self._list.currentItem())
                return True
        return super().eventFilter(watched, event)


def rank(typed: str, words: str) -> tuple[int, int] | None:
    """Lower is better; None if the letters aren't typed in this order."""
    typed, words = fold(typed).strip(), fold(words)
    start = words.find(typed)
    if start >= 0:
        begins = start == 0 or not words[start - 1].isalnum()
        return (0 if begins else 1, start)
    place, gaps = -1, 0
    for letter in "".join(typed.split()):
        found = words.find(letter, place + 1)
        if found < 0:
            return None
        begins = found == 0 or not words[found - 1].isalnum()
        gaps += 0 if begins or found == place + 1 else found - place
        place = found
    return (2, gaps)


def name_of(act: QAction) -> str:
    return act.text().replace("&&", "\0").replace("&", "").replace("\0", "&")


def objection(keys: QKeySequence, act: QAction, others: Sequence[QAction]) -> str:
    """Why an action can't have these keys."""
    if keys.isEmpty():
        return ""
    # PySide's stubs don't know that a sequence of keys can be indexed.
    shown, portable = keys.toString(NATIVE), keys.toString()
    if keys.count() > 1 or not USABLE.match(portable):
        return tr("Use Ctrl, Alt or a function key, so that you can still type.")
    if portable in EDITS_TEXT:
        return tr("{keys} is used for editing text.").format(keys=shown)
    for other in others:
        if other is not act and (keys in other.shortcuts() or keys == mnemonic(other)):
            words = tr("{keys} already belongs to: {action}")
            return words.format(keys=shown, action=name_of(other))
    return ""


def mnemonic(act: QAction) -> QKeySequence:
    return QKeySequence.mnemonic(act.text()) if act.menu() is not None else QKeySequence()


def set_shortcuts(
    actions: Mapping[str, QAction], chosen: Mapping[str, str], menus: Sequence[QAction]
) -> None:
    """Chosen keys that can't be used, or that an earlier action has, give way to the default."""
    for name, act in actions.items():
        keys = "" if name in chosen else str(act.property(DEFAULT))
        act.setShortcuts([QKeySequence(each) for each in (keys, TWINS.get(keys)) if each])
    for name, keys in chosen.items():
        if name in actions:
            act = actions[name]
            for wanted in map(QKeySequence, (keys, str(act.property(DEFAULT)))):
                if not objection(wanted, act, [*actions.values(), *menus]):
                    act.setShortcut(wanted)
                    break


class ShortcutEdit(QKeySequenceEdit):
    def __init__(self, act: QAction) -> None:
        super().__init__(act.shortcut())
        self.setObjectName("shortcutEdit")
        self.setAccessibleName(name_of(act))
        self.setMaximumSequenceLength(1)
        self.setClearButtonEnabled(True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, keys = Qt.Key(event.key()), Qt.Key
        if key in (keys.Key_Tab, keys.Key_Backtab):
            self.focusNextPrevChild(key is keys.Key_Tab)
        elif key is keys.Key_Escape:
            event.ignore()
        elif key is keys.Key_Backspace:
            self.clear()
        else:
            # Qt clears the field first, even for Shift, which would take the action's keys away.
            before = self.keySequence()
            self.blockSignals(True)
            super().keyPressEvent(event)
            if self.keySequence().isEmpty():
                self.setKeySequence(before)
            self.blockSignals(False)
            self.keySequenceChanged.emit(self.keySequence())
