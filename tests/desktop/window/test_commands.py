"""The palette of all actions, changed shortcuts, and the size of the text by keys and wheel."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QAction, QKeySequence, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTreeWidget

from desktop import theme
from desktop.app import App
from desktop.window.commands import CommandPalette, objection, rank, set_shortcuts
from desktop.window.menus import ShortcutsDialog
from tests.desktop.conftest import until
from tests.desktop.hands import find, press, settle, words

CTRL = Qt.KeyboardModifier.ControlModifier


async def palette(app: App) -> tuple[CommandPalette, QTreeWidget]:
    app.window.actions_by_name["actionPalette"].trigger()
    shown = find(app, CommandPalette, "commandPalette")
    return shown, find(app, QTreeWidget, "paletteList")


def listed(shown: QTreeWidget) -> list[str]:
    items = [shown.topLevelItem(place) for place in range(shown.topLevelItemCount())]
    return [item.text(0) for item in items if item is not None]


async def test_the_palette_does_what_is_typed_by_keys_alone(app: App) -> None:
    shown, actions = await palette(app)
    assert len(listed(actions)) == len(app.window.actions_by_name)
    QTest.keyClicks(shown.field, "keyb")
    assert listed(actions)[0] == "Keyboard shortcuts"
    QTest.keyClick(shown.field, Qt.Key.Key_Return)
    await until(lambda: app.window.findChildren(ShortcutsDialog))
    # Another by its place, and none.
    shown, actions = await palette(app)
    QTest.keyClicks(shown.field, "size text")
    assert listed(actions) == ["No action has this name"]
    QTest.keyClick(shown.field, Qt.Key.Key_Return)
    assert shown.isVisible()
    shown.field.clear()
    QTest.keyClicks(shown.field, "text")
    QTest.keyClick(shown.field, Qt.Key.Key_Down)
    item = actions.currentItem()
    assert item is not None and item.text(0) == listed(actions)[1]
    QTest.keyClick(shown.field, Qt.Key.Key_Escape)
    await until(lambda: not app.window.findChildren(CommandPalette))


async def test_the_palette_says_why_an_action_is_not_possible_now(app: App) -> None:
    shown, actions = await palette(app)
    # Below what is possible.
    assert "Stop · no reply is being written" in listed(actions)[-15:]
    QTest.keyClicks(shown.field, "print")
    assert listed(actions)[0] == "Print… · the chat is empty"
    item = actions.topLevelItem(0)
    assert item is not None and item.isDisabled()
    QTest.keyClick(shown.field, Qt.Key.Key_Return)
    await settle()
    assert shown.isVisible()


@pytest.mark.parametrize(
    ("typed", "best"),
    [("exp", "Export all"), ("exa", "Export all"), ("all", "All actions"), ("XALL", "Export all")],
)
def test_letters_in_their_order_find_a_name(typed: str, best: str) -> None:
    names = ["Rename", "All actions", "Search titles", "Export all"]
    ranked = [(found, name) for name in names if (found := rank(typed, name)) is not None]
    assert min(ranked)[1] == best


def test_letters_out_of_order_find_nothing() -> None:
    assert rank("lla", "Export all") is None
    assert rank("", "Anything") == (0, 0)


async def test_a_shortcut_is_changed_kept_and_restored(app: App) -> None:
    actions = app.window.actions_by_name
    actions["actionShortcuts"].trigger()
    dialog = find(app, ShortcutsDialog, "shortcutsDialog")
    edit = dialog._edits["actionNewChat"]
    edit.setKeySequence(QKeySequence("Ctrl+Alt+N"))
    assert actions["actionNewChat"].shortcut().toString() == "Ctrl+Alt+N"
    assert app.parts.settings.settings.window.shortcuts == {"actionNewChat": "Ctrl+Alt+N"}
    # What another action has, is refused in words.
    edit.setKeySequence(QKeySequence("Ctrl+O"))
    assert edit.keySequence().toString() == "Ctrl+Alt+N"
    other = actions["actionAddPictures"].text()
    assert words(app, "shortcutNote") == f"Ctrl+O already belongs to: {other}"
    # Its old keys are free now, and none at all are allowed.
    dialog._edits["actionDelete"].setKeySequence(QKeySequence("Ctrl+N"))
    assert actions["actionDelete"].shortcut().toString() == "Ctrl+N"
    edit.setKeySequence(QKeySequence())
    assert actions["actionNewChat"].shortcut().isEmpty()
    press(app, "shortcutsReset")
    assert edit.keySequence().toString() == "Ctrl+N"
    assert actions["actionDelete"].shortcut().isEmpty()
    assert app.parts.settings.settings.window.shortcuts == {}


async def test_a_field_of_keys_can_be_left_and_keeps_them(app: App) -> None:
    actions = app.window.actions_by_name
    actions["actionShortcuts"].trigger()
    dialog = find(app, ShortcutsDialog, "shortcutsDialog")
    edit, before = dialog._edits["actionPin"], dialog._edits["actionRename"]
    await until(dialog.isActiveWindow)
    edit.setFocus()
    # Refused, and part of a shortcut that was never finished.
    for key in (Qt.Key.Key_A, Qt.Key.Key_Control):
        QTest.keyClick(edit, key)
        assert edit.keySequence() == actions["actionPin"].shortcut() == QKeySequence("Ctrl+D")
    QTest.keyClick(edit, Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
    assert edit.keySequence() == QKeySequence("Ctrl+D") and before.hasFocus()
    QTest.keyClick(before, Qt.Key.Key_F7)
    assert actions["actionRename"].shortcut() == QKeySequence("F7")
    QTest.keyClick(before, Qt.Key.Key_Backspace)
    assert actions["actionRename"].shortcut().isEmpty()
    QTest.keyClick(before, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("A", "Use Ctrl, Alt or a function key, so that you can still type."),
        ("Shift+A", "Use Ctrl, Alt or a function key, so that you can still type."),
        ("Ctrl+K, Ctrl+B", "Use Ctrl, Alt or a function key, so that you can still type."),
        ("Ctrl+C", "Ctrl+C is used for editing text."),
        ("Ctrl+R", "Ctrl+R already belongs to: Other"),
        ("F7", ""),
        ("Ctrl+Alt+7", ""),
        ("", ""),
    ],
)
def test_keys_that_type_or_belong_to_another_are_refused(
    qapp: QApplication, keys: str, why: str
) -> None:
    own, other = QAction("Own"), QAction("Other")
    other.setShortcut(QKeySequence("Ctrl+R"))
    assert objection(QKeySequence(keys), own, [own, other]) == why


def test_a_file_that_gives_two_actions_the_same_keys_leaves_them_to_the_first(
    qapp: QApplication,
) -> None:
    actions = {name: QAction(name) for name in ("one", "two", "three")}
    for name, keys in (("one", "Ctrl+1"), ("two", "Ctrl+2"), ("three", "Ctrl+3")):
        actions[name].setProperty("defaultShortcut", keys)
    chosen = {"one": "Ctrl+3", "two": "Ctrl+1", "three": "Ctrl+1", "gone": "Ctrl+4"}
    set_shortcuts(actions, chosen, [])
    assert [each.shortcut().toString() for each in actions.values()] == ["Ctrl+3", "Ctrl+1", ""]
    # Keys that can't be used don't cost an action those of the program.
    set_shortcuts(actions, {"one": "nonsense", "two": "Ctrl+C", "three": ""}, [])
    assert [each.shortcut().toString() for each in actions.values()] == ["Ctrl+1", "Ctrl+2", ""]


async def test_ctrl_with_keys_and_wheel_sizes_the_text(app: App) -> None:
    settings = app.parts.settings
    try:
        for name, size in (("Larger", 115), ("Larger", 130), ("Smaller", 115), ("UsualSize", 100)):
            app.window.actions_by_name[f"action{name}"].trigger()
            assert settings.settings.window.text_size == theme.signals().text_size == size
        for _ in range(9):
            app.window.actions_by_name["actionSmaller"].trigger()
        assert settings.settings.window.text_size == 85
        # A touchpad's parts of a step, on a message; without Ctrl it scrolls.
        await settle()
        for modifiers, sizes in ((Qt.KeyboardModifier.NoModifier, [85, 85]), (CTRL, [85, 100])):
            for size in sizes:
                app.window.windowHandle().installEventFilter(app.window)
                QApplication.sendEvent(app.window.windowHandle(), wheel(60, modifiers))
                assert settings.settings.window.text_size == size
    finally:
        theme.set_text_size(100)


def wheel(angle: int, modifiers: Qt.KeyboardModifier) -> QWheelEvent:
    at, none = QPointF(300, 300), QPoint()
    buttons, phase = Qt.MouseButton.NoButton, Qt.ScrollPhase.NoScrollPhase
    return QWheelEvent(at, at, none, QPoint(0, angle), buttons, modifiers, phase, False)
