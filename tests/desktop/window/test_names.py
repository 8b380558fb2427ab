"""Every control has a name a screen reader can say, and an objectName that docs/ui.md lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QProgressBar,
    QTextEdit,
    QWidget,
)

from core.api.reply_format import ReplyFormat
from core.api.stats import HeldCheckpoint, Miss, RequestStats
from core.downloads import jobs
from desktop.app import App
from desktop.chat.data.json_body import DataView
from desktop.chat.markdown import markdown_body
from desktop.chat.rows.reply_row import ReplyRow
from desktop.pictures.picture_viewer import PictureViewer
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, png
from tests.desktop.hands import (
    Windows,
    drop,
    ended,
    files,
    find,
    press,
    press_key,
    send,
    settle,
    thumbnails,
    type_in,
)
from tests.desktop.models.test_get_model import plan
from tests.documents import pdf

UI_PAGE = Path(__file__).parents[3] / "docs" / "ui.md"
CONTROLS = (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QTextEdit,
)
# Parts of Qt's own controls: a list that drops down, the field inside a spin box, what clears one.
QTS_OWN = re.compile(r"qt_.*|_q_.*|QFrame|Qt.*|QCompleter.*|_layout|")


async def filled(app: App, engine: FakeEngine, folder: Path) -> None:
    (folder / "a.png").write_bytes(png(300, 200))
    drop(app, files([folder / "a.png"]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    asked = await send(app, engine, "Look at this")
    asked.say("A picture.\n\n```python\nx = 1\n```\n", reasoning="Hm.")
    held = HeldCheckpoint(token=5, position=5, bytes=9)
    stats = RequestStats(
        prompt_tokens=10,
        reused_tokens=4,
        evaluated_tokens=6,
        checkpoints=(held,),
        miss=Miss(reason="diverged", token=4, message=0),
    )
    asked.finish(stats=stats, reasoning="Hm.")
    await ended(app)
    (await send(app, engine, "long " * 4000)).finish("Long.")
    await ended(app)
    app.parts.chat.ask_for(ReplyFormat(kind="json"))
    await until(lambda: app.parts.chat.format)
    (await send(app, engine, "List them")).finish('[{"a": 1}]')
    await until(lambda: app.window.findChildren(DataView))
    press(app, "regenerate")
    await until(lambda: len(engine.asked) == 4)
    engine.asked[3].finish('[{"a": 2}]')
    await ended(app)
    find(app, ReplyRow, "replyRow").edit()
    app.parts.chat.ask_for(None)
    await until(lambda: app.parts.chat.format is None)
    (await send(app, engine, "In short")).finish("Again.\n\n" * 5)
    await ended(app)
    app.parts.chat.ask_for(ReplyFormat(kind="json"))
    press(app, "numbersToggle")
    press(app, "editMessage")
    drop(app, files([folder / "a.png"]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    app.window.toast.say("Words", action=("Undo", lambda: None))
    thumbnails(app)[0].opened.emit()
    viewer = find(app, PictureViewer, "pictureViewer")
    await until(lambda: not viewer.shown.isEmpty())
    app.window.page.find_bar.begin()
    await send(app, engine, "The last")
    type_in(app, "One that waits")
    press_key(app, Qt.Key.Key_Return)
    (folder / "a.pdf").write_bytes(pdf(["one", "two"]))
    drop(app, files([folder / "a.png", folder / "a.pdf"]))
    draft = app.parts.chat.draft
    await until(lambda: draft.pictures and draft.documents and draft.complete)
    press(app, "documentMore")
    press(app, "documentOpen")
    press(app, "messageMore")
    while (menu := QApplication.activePopupWidget()) is not None:
        menu.close()
    await settle()


def ours(item: QObject) -> bool:
    return QTS_OWN.fullmatch(item.objectName()) is None


def nameless(root: QWidget) -> list[str]:
    found = []
    for widget in root.findChildren(QWidget):
        inside = [type(parent).__name__ for parent in ancestors(widget)]
        # A text that can only be read is spoken itself; a list that drops down is its box's.
        is_text = isinstance(widget, QTextEdit) and widget.isReadOnly()
        dropped = any(isinstance(parent, QComboBox) for parent in ancestors(widget))
        if not isinstance(widget, CONTROLS) or is_text or dropped:
            continue
        if not spoken_name(widget) and not widget.objectName().startswith("qt_"):
            found.append(" in ".join([type(widget).__name__, widget.objectName(), *inside]))
    return found


def spoken_name(widget: QWidget) -> str:
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.text(QAccessible.Text.Name).strip()


def ancestors(widget: QWidget) -> list[QWidget]:
    parents: list[QWidget] = []
    while (parent := widget.parentWidget()) is not None:
        parents.append(parent)
        widget = parent
    return parents


def documented() -> set[str]:
    lines = UI_PAGE.read_text(encoding="utf-8").splitlines()
    cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


async def test_names_and_the_keyboard(
    open_app: OpenApp,
    engine: FakeEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    qapp: QApplication,
) -> None:
    windows = Windows(qapp)
    # A message of five short blocks is too long to be drawn whole.
    monkeypatch.setattr(markdown_body, "PAGE", 900)
    app = await open_app()
    app.window.side_panel.show_page(1)
    jobs.create(app.parts.downloads.folder, plan())
    app.parts.downloads.find_unfinished()
    await until(lambda: app.parts.downloads.shown)
    app.window.actions_by_name["actionGetModel"].trigger()
    app.window.actions_by_name["actionServer"].trigger()
    app.window.actions_by_name["actionServers"].trigger()
    app.window.actions_by_name["actionSearchMessages"].trigger()
    app.window.actions_by_name["actionModels"].trigger()
    app.window.actions_by_name["actionCompare"].trigger()
    press(app, "chatSettings")
    await filled(app, engine, tmp_path)
    assert windows.shown == ["mainWindow"]
    assert nameless(app.window) == []
    names = {item.objectName() for item in app.window.findChildren(QObject) if ours(item)}
    assert names | {app.window.objectName()} == documented()
    captions = [
        label.text() for label in app.window.findChildren(QLabel, "pictureCaption") if label.text()
    ]
    assert captions and all("tokens" in caption for caption in captions)
    stuck = [
        f"{type(widget).__name__} {widget.objectName()}"
        for widget in app.window.findChildren(QWidget)
        if isinstance(widget, QAbstractButton | QLineEdit | QComboBox | QPlainTextEdit)
        and widget.isVisible()
        and not widget.objectName().startswith("qt_")
        and not widget.focusPolicy().value & 1  # TabFocus
    ]
    assert stuck == []


async def test_a_line_parts_what_deletes_everything_from_the_rest(app: App) -> None:
    entries = app.window.actions_by_name["actionDeleteAll"].associatedObjects()
    menu = next(each for each in entries if isinstance(each, QMenu))
    actions = menu.actions()
    at = actions.index(app.window.actions_by_name["actionDeleteAll"])
    assert actions[at - 1].isSeparator() and actions[at + 1].isSeparator()
