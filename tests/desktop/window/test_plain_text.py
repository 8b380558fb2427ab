"""H1: what came from outside is shown as text, wherever the window shows it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPoint, Qt
from PySide6.QtGui import QAction, QTextDocument
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QLabel,
    QMessageBox,
    QTextEdit,
    QToolTip,
    QWidget,
)

from core.api.errors import ErrorInfo, ImageUnreadableError, TemplateError
from desktop import starting
from desktop.app import App
from desktop.engine.engine_status import Phase
from tests.desktop.bait import Bait
from tests.desktop.conftest import Loop, OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info, png
from tests.desktop.hands import drop, ended, files, send, settle, thumbnails, words

# A name, a title or a sentence of a stranger's. FILE stands for a path that must not be opened.
HOSTILE = (
    "<style>@import 'FILE';</style>&Words <img src='FILE'> &lt;b&gt; "
    "<a href='https://a.example'>b</a> \u202egpj.exe\u202c [*] %1 \x00 " + "w" * 300
)


@pytest.fixture
def bait(tmp_path: Path) -> Iterator[Bait]:
    with Bait(tmp_path / "bait.css") as bait:
        yield bait


def hostile(bait: Bait) -> str:
    return HOSTILE.replace("FILE", str(bait.path))


def windows() -> list[QWidget]:
    return [each for each in QApplication.topLevelWidgets() if not is_qts_own(each)]


def is_qts_own(widget: QWidget) -> bool:
    """The tool tip's own label, which guesses: what it is given is looked at instead."""
    return widget.objectName() == "qtooltip_label"


def everything() -> list[QWidget]:
    found: list[QWidget] = []
    for window in windows():
        found += [window, *window.findChildren(QWidget)]
    return [each for each in found if not is_qts_own(each)]


def guessing(widget: QWidget) -> list[str]:
    """Texts of a widget that Qt would take for markup, or read as a mnemonic."""
    found = []
    if isinstance(widget, QLabel) and widget.textFormat() is not Qt.TextFormat.PlainText:
        found.append("label") if widget.text() else None
    if isinstance(widget, QMessageBox) and widget.textFormat() is not Qt.TextFormat.PlainText:
        found.append("message box")
    if isinstance(widget, QTextEdit) and type(widget.document()) is QTextDocument:
        found.append("document that loads what it names")
    tips = [widget.toolTip(), widget.whatsThis(), widget.statusTip(), *item_tips(widget)]
    tips += [action.toolTip() for action in widget.actions()]
    found += [f"tip {tip[:60]}" for tip in tips if reads_as_markup(tip)]
    if isinstance(widget, QAbstractButton) and mnemonic_of_a_stranger(widget.text()):
        found.append(f"button {widget.text()[:60]}")
    found += [f"action {each.text()}" for each in widget.actions() if is_strange(each)]
    return [f"{type(widget).__name__} {widget.objectName()}: {each}" for each in found]


def is_strange(action: QAction) -> bool:
    return mnemonic_of_a_stranger(action.text())


def reads_as_markup(tip: str) -> bool:
    """True for markup that is not our own: a paragraph of escaped words."""
    if not GuiQt.mightBeRichText(tip):
        return False
    inside = tip.replace("<p>", "").replace("</p>", "").replace("<br>", "").replace("<br />", "")
    return not tip.startswith("<p>") or "<" in inside


def mnemonic_of_a_stranger(text: str) -> bool:
    return "Words" in text and "&" in text.replace("&&", "")


def item_tips(widget: QWidget) -> list[str]:
    models: list[QAbstractItemModel] = []
    if isinstance(widget, QAbstractItemView) and widget.model() is not None:
        models.append(widget.model())
    if isinstance(widget, QComboBox):
        models.append(widget.model())
    role = Qt.ItemDataRole.ToolTipRole
    return [
        str(model.data(model.index(row, 0, QModelIndex()), role) or "")
        for model in models
        for row in range(model.rowCount(QModelIndex()))
    ]


async def look_at_everything(bait: Bait) -> None:
    """Nothing drawn is markup, nothing is opened."""
    await settle()
    found = [each for widget in everything() for each in guessing(widget)]
    assert found == []
    for widget in everything():
        for tip in [widget.toolTip(), *item_tips(widget)]:
            if tip:
                QToolTip.showText(QPoint(1, 1), tip, widget)
    QToolTip.hideText()
    for window in windows():
        window.grab()
    assert not bait.opened


async def filled(app: App, engine: FakeEngine, bait: Bait, folder: Path) -> None:
    """Put a stranger's words wherever words can come from outside."""
    words_ = hostile(bait)
    language = words_.replace(" ", "")
    name = "<img src=x> &Words \u202egnp." + "n" * 150 + ".png"
    (folder / name).write_bytes(png(300, 200))
    drop(app, files([folder / name]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    asked = await send(app, engine, words_)
    reply = f"```{language}\nx\n```\n\n{words_}\n\n# {words_}\n\n![{words_}]({words_})\n"
    asked.say(reply, reasoning=words_)
    asked.fail(ErrorInfo(name="TemplateError", title=words_, message=words_))
    row = await ended(app)
    row._reasoning.set_open(True)
    drop(app, files([folder / name]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    drop(app, files([folder / "not there <b>&Words"]))
    await until(lambda: words(app, "composerNotice"))
    app.window.toast.say(words_, action=(words_, lambda: None))
    app.window.page.delete_all.ask(words_)
    app.parts.settings.note_outcome(ErrorInfo(name="BudgetTooSmallError", title="", message=words_))
    path = str(folder / words_.replace("/", "-").replace("\x00", ""))
    app.parts.settings.set_model_path(path)
    chat = app.parts.transcript.chat
    assert chat is not None
    app.parts.chat_list.rename_asked.emit(chat, words_)
    await until(lambda: "Words" in app.parts.chat_list.chats[0].title)


async def test_H1_every_word_of_a_stranger_is_text(
    open_app: OpenApp, engine: FakeEngine, bait: Bait, tmp_path: Path
) -> None:
    text = hostile(bait)
    engine.model_to_load = model_info(
        name=text, path=text, family=text, device=text, precision=text, history_note=text
    )
    app = await open_app()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    await filled(app, engine, bait, tmp_path)
    for page in (0, 1):
        app.window.side_panel.show_page(page)
        await look_at_everything(bait)


async def test_H1_the_language_of_a_listing_is_text(open_app: OpenApp, engine: FakeEngine) -> None:
    # A listing's language is cut after 40 characters, so the path must be short.
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as folder:
        path = Path(folder) / "b"
        with Bait(path) as bait:
            app = await open_app()
            asked = await send(app, engine, "Hello")
            asked.finish(f"```<style>@import'{path}';\nx = 1\n```\n")
            await ended(app)
            assert words(app, "codeLanguage") == f"<style>@import'{path}';"
            await look_at_everything(bait)


async def test_H1_a_templates_own_words_are_text(
    open_app: OpenApp, engine: FakeEngine, bait: Bait
) -> None:
    engine.model_to_load = None
    engine.load_error = TemplateError(hostile(bait))
    app = await open_app()
    await until(lambda: app.parts.engine.status.phase is Phase.EMPTY)
    app.window.side_panel.show_page(1)
    assert "&Words" in words(app, "modelWords")
    await look_at_everything(bait)


async def test_H1_the_refusal_box_is_text(qloop: Loop, bait: Bait) -> None:
    asked = asyncio.ensure_future(starting.ask_what_to_do(TemplateError(hostile(bait)), None, True))
    await until(lambda: boxes() and boxes()[-1].isVisible())
    await look_at_everything(bait)
    boxes()[-1].close()
    assert await asked is starting.Choice.CLOSE


def boxes() -> list[QMessageBox]:
    found = QApplication.topLevelWidgets()
    return [each for each in found if isinstance(each, QMessageBox)]


async def test_H1_what_is_told_of_the_start_and_of_a_large_picture_is_text(
    engine: FakeEngine, bait: Bait, tmp_path: Path, app: App
) -> None:
    box = starting.tell_notices(app.window, [hostile(bait)], tmp_path)
    await until(box.isVisible)
    await look_at_everything(bait)
    box.close()
    (tmp_path / "a.png").write_bytes(png(300, 200))
    drop(app, files([tmp_path / "a.png"]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    engine.render_error = ImageUnreadableError(hostile(bait))
    thumbnails(app)[0].opened.emit()
    await until(lambda: words(app, "pictureError"))
    await look_at_everything(bait)
