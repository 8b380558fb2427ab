from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QSettings, Qt, QUrl
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QListWidget,
    QProgressBar,
    QPushButton,
    QWidget,
)

from core.api.stats import ContextPart, HeldCheckpoint, RequestStats
from desktop import theme
from desktop.app import App
from desktop.chat.rows.reply_parts import ReasoningFold
from desktop.engine.engine_status import Phase
from desktop.pictures.draft import Draft
from desktop.store.folders import DEMO_MODEL
from desktop.store.tables.errors import StoreError
from desktop.widgets import notices
from desktop.widgets.icon_button import IconButton
from desktop.widgets.long_text import LONGEST_TEXT
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info, png
from tests.desktop.hands import (
    child,
    drop,
    ended,
    files,
    find,
    paste,
    press,
    press_key,
    said,
    send,
    settle,
    thumbnails,
    type_in,
    user_rows,
    words,
)

STATS = RequestStats(
    prompt_tokens=1260,
    prompt_positions=1260,
    reused_tokens=1204,
    evaluated_tokens=56,
    reply_tokens=12,
    images_in_prompt=1,
    checkpoints=(HeldCheckpoint(token=512, position=512, bytes=2**20),),
    checkpoints_held=3,
    ttft_s=0.4,
    decode_tokens_per_s=28.0,
    context_length=4096,
)


def running() -> QApplication:
    qt = QApplication.instance()
    assert isinstance(qt, QApplication)
    return qt


async def test_the_window_is_there_before_the_engine(open_app: OpenApp, engine: FakeEngine) -> None:
    engine.may_load.clear()
    app = await open_app()
    assert app.window.isVisible()
    await until(lambda: engine.loads)
    assert "Loading the model: 50 %" in words(app, "engineState")
    engine.may_load.set()
    await until(lambda: words(app, "modelName") == "stand-in")


async def test_typing_and_sending(app: App, engine: FakeEngine) -> None:
    app.window.activateWindow()
    composer = app.window.page.composer
    find(app, QLineEdit, "chatSearch").setFocus()
    below = composer.text.mapTo(composer, composer.text.rect().center())
    below.setY(composer.height() - 4)
    QTest.mouseClick(composer, Qt.MouseButton.LeftButton, pos=below)
    await until(composer.text.hasFocus)
    QTest.keyClicks(composer.text, "first line")
    press_key(app, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    press_key(app, Qt.Key.Key_X)
    assert composer.text.toPlainText() == "first line\nx"
    press_key(app, Qt.Key.Key_Return)
    await until(lambda: engine.asked)
    assert composer.text.toPlainText() == ""
    assert user_rows(app)[0].row.text == "first line\nx"
    fold = find(app, ReasoningFold, "")
    assert not fold.isVisible()
    engine.asked[0].say(reasoning="Let me see.")
    await until(fold.isVisible)
    engine.asked[0].finish("Yes.", reasoning="Let me see.")
    await ended(app)
    assert (fold.text(), fold.is_open()) == ("Let me see.", False)
    type_in(app, "half a thought")
    press(app, "newChat")
    await until(lambda: composer.text.toPlainText() == "")
    app.window.side_bar.list.setCurrentIndex(app.parts.chat_list.index(1))
    await until(lambda: composer.text.toPlainText() == "half a thought")


async def test_send_becomes_stop_and_back(app: App, engine: FakeEngine) -> None:
    button = find(app, QPushButton, "sendButton")
    assert not button.isEnabled()
    for stop in (button.click, app.window.actions_by_name["actionStop"].trigger):
        asked = await send(app, engine, "Hello")
        assert (button.text(), button.isEnabled()) == ("Stop", True)
        asked.say("Half")
        await until(lambda: app.parts.transcript.rows[-1].text == "Half")
        stop()
        row = await ended(app)
        assert asked.cancelled
        assert (button.text(), button.isEnabled()) == ("Send", False)
        assert said(row) == "Half"
        assert words(app, "replyEnding") == "Stopped."


def ends_with(app: App, piece: str) -> bool:
    return app.parts.transcript.rows[-1].text.endswith(piece)


async def test_the_numbers_are_live_under_the_reply_and_in_the_panel(
    app: App, engine: FakeEngine
) -> None:
    asked = await send(app, engine, "Hello")
    parts = (ContextPart(start=0, end=1260, kind="text", source="evaluated"),)
    begun = {"ttft_s": None, "decode_tokens_per_s": None, "reply_tokens": 0, "parts": parts}
    asked.prefill(600, STATS.model_copy(update=begun))
    await until(lambda: "600" in words(app, "contextSummary"))
    assert "Reading: 600 of 1,260 tokens" in words(app, "replyStatus")
    asked.prefill(1260, STATS.model_copy(update=begun))
    await until(lambda: "1,260" in words(app, "contextSummary"))
    asked.say("One ", ids=(1, 2, 3), ttft_s=0.4, speed=12.0)
    await until(lambda: words(app, "contextFirstToken") == "0.4 s")
    assert words(app, "replyStatus") == ""
    assert words(app, "contextSpeed") == "12 tokens/s"
    assert words(app, "contextTokens").startswith("1,263 of")
    assert "Reading" not in words(app, "contextHero")
    assert not find(app, QProgressBar, "contextProgress").isVisible()
    assert "12 tokens/s" in words(app, "numbersText")
    asked.say("two", ids=(4, 5), ttft_s=0.4, speed=30.0)
    await until(lambda: words(app, "contextSpeed") == "30 tokens/s")
    assert words(app, "contextTokens").startswith("1,265 of")
    await until(lambda: "30 tokens/s" in words(app, "numbersText"))
    asked.finish(stats=STATS)
    await ended(app)
    assert "1,204 of 1,260 tokens reused" in words(app, "numbersText")
    assert words(app, "contextReused") == "1,204"
    assert words(app, "contextEvaluated") == "56"
    assert words(app, "contextImagesEncoded") == "0"


async def dialog(app: App, name: str) -> QFileDialog:
    await until(lambda: app.window.findChild(QFileDialog, name))
    return find(app, QFileDialog, name)


async def left_dialog(app: App, button: str, name: str) -> None:
    press(app, button)
    (await dialog(app, name)).reject()
    await until(lambda: app.window.findChild(QFileDialog, name) is None)


async def choose(app: App, folder: Path) -> None:
    shown = await dialog(app, "folderDialog")
    shown.setDirectory(str(folder))
    shown.done(QFileDialog.DialogCode.Accepted)


async def test_pictures_come_by_the_button_too(app: App, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    await left_dialog(app, "addPictures", "pictureDialog")
    assert thumbnails(app) == []
    press(app, "addPictures")
    shown = await dialog(app, "pictureDialog")
    find(app, QLineEdit, "fileNameEdit").setText(str(tmp_path / "a.png"))
    shown.accept()
    await until(lambda: thumbnails(app) and app.parts.chat.draft.complete)


async def test_a_model_folder_is_chosen_loaded_and_remembered(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    app.window.side_panel.show_page(1)
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    (tmp_path / "my model").mkdir()
    await left_dialog(app, "browseModel", "folderDialog")
    assert app.parts.settings.settings.model.path == ""
    press(app, "browseModel")
    await choose(app, tmp_path / "my model")
    folders = find(app, QComboBox, "modelFolder")
    await until(lambda: folders.currentText() == "my model")
    assert len(engine.loads) == 1
    press(app, "loadModel")
    await until(lambda: len(engine.loads) == 2)
    assert engine.loads[1].path == str(tmp_path / "my model")
    folders.setCurrentIndex(0)
    folders.activated.emit(0)
    assert app.parts.settings.settings.model.path == ""
    assert [folders.itemText(at) for at in range(folders.count())] == ["The demo model", "my model"]


async def test_a_pasted_picture_an_address_and_a_text_too_long(app: App) -> None:
    image = QImage(20, 10, QImage.Format.Format_RGB32)
    image.fill(0)
    data = QMimeData()
    data.setImageData(image)
    paste(app, data)
    await until(lambda: thumbnails(app) and app.parts.chat.draft.complete)
    assert "20 x 10" in thumbnails(app)[0].caption()
    address = QMimeData()
    address.setUrls([QUrl("https://example.org/cat.png")])
    drop(app, address)
    await until(lambda: words(app, "composerNotice").startswith("Not added: that is a web address"))
    address = QMimeData()
    address.setUrls([QUrl("https://example.org/")])
    address.setText("https://example.org/")
    paste(app, address)
    field = app.window.page.composer.text
    assert field.toPlainText() == "https://example.org/"
    copied = QMimeData()
    copied.setData("image/png", png(20, 10))  # what the viewer puts on the clipboard on Linux
    assert field.canInsertFromMimeData(copied)
    field.insertFromMimeData(copied)
    await until(lambda: len(thumbnails(app)) == 2 and app.parts.chat.draft.complete)
    field.clear()
    for give in (paste, drop):
        # The clipboard owns what it is given.
        data = QMimeData()
        data.setText("x" * (LONGEST_TEXT + 1))
        give(app, data)
        assert "this text has 2,000,001." in words(app, "composerNotice")
        assert field.toPlainText() == ""


def has_pictures(draft: Draft, names: list[str]) -> bool:
    return [each.name for each in draft.pictures] == names


async def test_a_sample_takes_the_place_of_the_last_one_and_never_of_words(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    engine.model_to_load = model_info(path=str(DEMO_MODEL))
    app = await open_app()
    await until(lambda: app.parts.engine.model)
    draft, field = app.parts.chat.draft, app.window.page.composer.text
    for name, pictures, question in (
        ("sample2", ["four-shapes.png"], "What colour is the star?"),
        ("sample3", ["two-crosses.png"], "Count the crosses."),
        ("sample6", [], "What can you do?"),
    ):
        press(app, name)
        await until(partial(has_pictures, draft, pictures))
        assert field.textCursor().selectedText() == question
    QTest.keyClicks(field, "Mine")
    assert field.toPlainText() == "Mine"
    press(app, "sample1")
    await until(partial(has_pictures, draft, ["three-shapes.png"]))
    assert field.toPlainText() == "Mine"
    field.clear()
    press(app, "sample1")
    await until(lambda: draft.complete)
    assert field.textCursor().selectedText() == "What is in the picture?"
    press(app, "sendButton")
    await until(lambda: engine.asked)
    assert user_rows(app)[0].row.text == "What is in the picture?"
    engine.asked[0].finish("Shapes.")
    await ended(app)


async def test_sampling_takes_valid_values_and_model_settings_wait_for_load(
    app: App, engine: FakeEngine
) -> None:
    app.window.side_panel.show_page(1)
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    field = find(app, QLineEdit, "settingSamplingTemperature")
    assert "0.7" in field.placeholderText()
    for text, value in (("0", 0.0), ("1.5", 1.5), ("-1", 1.5), ("warm", 1.5), ("", None)):
        field.setText(text)
        field.editingFinished.emit()
        assert app.parts.settings.settings.sampling.temperature == value
    find(app, QLineEdit, "settingSamplingSeed").setText("7")
    find(app, QLineEdit, "settingSamplingSeed").editingFinished.emit()
    asked = await send(app, engine, "Hello")
    assert asked.command.sampling.seed == 7
    asked.finish("x")
    await ended(app)
    load = find(app, QPushButton, "loadModel")
    assert not load.isEnabled()
    field = find(app, QLineEdit, "settingModelContextLength")
    field.setText("2048")
    field.editingFinished.emit()
    assert load.isEnabled()
    load.click()
    await until(lambda: len(engine.loads) == 2)
    assert engine.loads[1].context_length == 2048
    await until(lambda: not load.isEnabled())


async def test_L5_what_is_shown_keeps_the_loaded_model(app: App, engine: FakeEngine) -> None:
    await until(lambda: app.parts.engine.model)
    app.window.side_panel.show_page(1)
    engine.model_to_load = None
    app.parts.settings.set_model_path("/models/broken")
    press(app, "loadModel")
    await until(app.window.toast.isVisible)
    assert words(app, "toastText").startswith("broken was not loaded.")
    assert words(app, "modelWords") == words(app, "toastText")
    assert find(app, QComboBox, "modelFolder").currentText() == "The demo model"
    assert words(app, "modelName") == "stand-in"
    menu = app.window.page.header.model.menu_shown()
    assert [each.text() for each in menu.actions() if each.isChecked()] == ["The demo model"]
    assert not find(app, QWidget, "emptyChoose").isVisible()


async def test_without_a_model_the_empty_page_says_why_and_offers_to_choose_one(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    engine.model_to_load = None
    app = await open_app()
    await until(lambda: words(app, "emptyReason"))
    assert "config.json is missing" in words(app, "emptyReason")
    await until(app.window.toast.isVisible)
    assert "config.json is missing" in words(app, "toastText")
    app.window.side_panel.show_page(1)
    assert "config.json is missing" in words(app, "modelWords")
    assert words(app, "engineState") == "No model is loaded"
    engine.model_to_load = model_info()
    press(app, "emptyChoose")
    (tmp_path / "config.json").write_text("{}")
    await choose(app, tmp_path)
    await until(lambda: app.parts.engine.model)
    assert engine.loads[-1].path == str(tmp_path)
    assert words(app, "emptyReason") == ""


async def test_of_several_models_in_a_folder_one_is_chosen_by_its_name(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    await until(lambda: app.parts.engine.model)
    for name in ("models--Org--One", "models--Org--Two"):
        snapshot = tmp_path / name / "snapshots" / "0a1b2c"
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
    app.window.page.header.model.folder_asked.emit()
    await choose(app, tmp_path)
    await until(lambda: app.window.findChild(QListWidget, "modelsFound"))
    found = child(app.window, QListWidget, "modelsFound")
    assert [found.item(at).text() for at in range(found.count())] == ["Org/One", "Org/Two"]
    found.setCurrentRow(1)
    press(app, "modelsChoose")
    await until(lambda: len(engine.loads) == 2)
    assert engine.loads[1].path == str(tmp_path / "models--Org--Two" / "snapshots" / "0a1b2c")
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    menu = app.window.page.header.model.menu_shown()
    assert [each.text() for each in menu.actions() if each.isChecked()] == ["Org/Two"]
    app.window.side_panel.show_page(1)
    assert find(app, QComboBox, "modelFolder").currentText() == "Org/Two"


async def test_what_went_wrong_stays_until_it_is_closed(
    open_app: OpenApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "SHOWN_FOR_MS", 50)
    app = await open_app()
    await until(lambda: app.parts.engine.model)
    toast = app.window.toast
    toast.say("first", "error")
    toast.say("second", "warning")
    toast.say("some news", action=("Undo", lambda: None))
    assert words(app, "toastText") == "some news"
    await until(lambda: words(app, "toastText") == "second")
    await asyncio.sleep(0.15)
    assert words(app, "toastText") == "second" and words(app, "toastAction") == ""
    toast.say("more news")
    press(app, "toastClose")
    assert words(app, "toastText") == "second"
    press(app, "toastClose")
    assert words(app, "toastText") == "first"
    press(app, "toastClose")
    assert not toast.isVisible()
    toast.say("news go by themselves")
    await until(lambda: not toast.isVisible())


async def test_trouble_that_is_over_is_taken_back(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await open_app()
    await until(lambda: app.parts.engine.model)
    app.window.toast.say("another", "warning")
    model, engine.model_to_load = engine.model_to_load, None
    for name in ("one", "two"):
        app.parts.settings.set_model_path(f"/models/{name}")
        app.parts.settings.load()
        await until(partial(lambda start: words(app, "toastText").startswith(start), name))
    engine.model_to_load = model
    app.parts.settings.set_model_path("/models/three")
    app.parts.settings.load()
    await until(lambda: words(app, "toastText") == "another")
    app.parts.failed.emit(StoreError("The disk is full.").info())
    assert words(app, "toastText") == "The chats can't be stored. The disk is full."
    await send(app, engine, "There is room again")
    await until(lambda: words(app, "toastText") == "another")
    press(app, "toastClose")
    assert not app.window.toast.isVisible()


async def test_an_engine_that_gives_up_offers_to_start_again(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    engine.starts = False
    app = await open_app()
    await until(lambda: words(app, "engineState") == "The engine could not be started")
    engine.starts = True
    press(app, "restartEngine")
    await until(lambda: words(app, "modelName") == "stand-in")


async def test_closing_stores_everything_and_the_windows_size(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    first = await open_app()
    first.window.resize(first.window.width(), 555)
    press(first, "toggleChats")
    (await send(first, engine, "Hello")).say("Half")
    await until(lambda: first.parts.transcript.rows[-1].text == "Half")
    first.window.actions_by_name["actionQuit"].trigger()
    assert first.window.isVisible()
    await first.gone.wait()
    assert engine.closed and not first.window.isVisible()
    second = await open_app()
    assert second.window.height() == 555
    assert second.window.side_bar.isHidden()


async def test_the_last_chat_is_noted_before_the_program_ends(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    await send(app, engine, "Hello")
    noted = QSettings(str(app.parts.folders.geometry_file), QSettings.Format.IniFormat)
    await until(lambda: noted.value("lastChat", 0, type=int) == app.parts.chats.shown is not None)


async def test_a_blind_model_refuses_pictures_before_sending(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    engine.model_to_load = model_info(vision=False)
    app = await open_app()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    (tmp_path / "a.png").write_bytes(png())
    drop(app, files([tmp_path / "a.png"]))
    await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
    type_in(app, "What is it?")
    press(app, "sendButton")
    await until(lambda: "can't see pictures" in words(app, "composerNotice"))
    assert engine.asked == []
    assert len(thumbnails(app)) == 1


@pytest.mark.slow
async def test_the_theme_may_change_while_a_reply_grows(app: App, engine: FakeEngine) -> None:
    asked = await send(app, engine, "Hello")
    pieces = ["Some `code` and\n\n```py\nx = 1", "\n```\n\n- one\n- t", "wo\n\nThe end."]
    try:
        choices: tuple[theme.Choice, ...] = ("dark", "light", "dark")
        for piece, choice in zip(pieces, choices, strict=True):
            asked.say(piece)
            await until(partial(ends_with, app, piece))
            theme.force(running(), choice)
            await settle()
        asked.finish()
        assert said(await ended(app)) == "".join(pieces)
        shades = []
        for choice in ("light", "dark"):
            theme.force(running(), choice)
            await settle()
            image = app.window.grab().toImage()
            shades.append(image.pixelColor(image.width() // 2, image.height() - 200).lightness())
        assert shades[0] > 200 > 60 > shades[1]
    finally:
        theme.force(running(), "system")


async def test_entries_of_the_menus_that_would_do_nothing_are_disabled(
    app: App, engine: FakeEngine
) -> None:
    await until(lambda: app.parts.engine.model)
    watched = ["actionRename", "actionPin", "actionDelete", "actionFind", "actionRegenerate"]
    watched += ["actionStop", "actionRestart"]

    def enabled() -> set[str]:
        return {name for name in watched if app.window.actions_by_name[name].isEnabled()}

    buttons = [find(app, IconButton, name) for name in ("renameChat", "deleteChat")]
    assert enabled() == {"actionRestart"} and not any(each.isEnabled() for each in buttons)
    asked = await send(app, engine, "Hello")
    await until(lambda: enabled() == set(watched))
    asked.finish("Hi")
    await until(lambda: enabled() == set(watched) - {"actionStop"})
    assert all(each.isEnabled() for each in buttons)
    press(app, "newChat")
    await until(lambda: enabled() == {"actionRestart"})
    assert not any(each.isEnabled() for each in buttons)
    engine.may_load.clear()
    dying = asyncio.ensure_future(engine.die())
    await until(lambda: enabled() == set())
    engine.may_load.set()
    await dying
    await until(lambda: enabled() == {"actionRestart"})
