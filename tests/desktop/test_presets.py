"""Settings of a chat, presets, and the switch for thinking, in the window."""

from __future__ import annotations

import json

from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QStyleOptionComboBox,
)

from core.api.reply_format import ReplyFormat
from desktop.app import App
from desktop.presets import ChatSettingsDialog
from desktop.store.folders import Folders
from desktop.store.settings import AppSettings, Preset, with_own
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, press, send, words

JSON = ReplyFormat(kind="json")


def opened(app: App) -> ChatSettingsDialog:
    press(app, "chatSettings")
    return find(app, ChatSettingsDialog, "chatSettingsDialog")


def set_temperature(app: App, text: str) -> None:
    field = find(app, QLineEdit, "ownSamplingTemperature")
    field.setText(text)
    field.editingFinished.emit()


async def test_own_values_reach_requests_of_their_chat_alone(app: App, engine: FakeEngine) -> None:
    (await send(app, engine, "one")).finish("first")
    await ended(app)
    opened(app)
    assert words(app, "ownDiffers") == "The same as the default for new chats."
    set_temperature(app, "0.25")
    find(app, QPlainTextEdit, "ownSamplingStop").setPlainText("END\nEnd\\n")
    asked = await send(app, engine, "two")
    assert asked.command.sampling.temperature == 0.25
    assert asked.command.sampling.stop == ("END", "End\n")
    asked.finish("second")
    await ended(app)
    assert words(app, "ownDiffers") == "Differs from the default: Temperature, Stop strings."
    app.parts.chat.open(None)
    await until(lambda: words(app, "ownDiffers") == "The same as the default for new chats.")
    asked = await send(app, engine, "three")
    assert asked.command.sampling.temperature is None
    asked.finish("third")
    await ended(app)
    app.parts.chat.open(1)
    await until(lambda: app.parts.chat.own)
    press(app, "ownBack")
    await until(lambda: not app.parts.chat.own)
    press(app, "toastAction")
    await until(lambda: app.parts.chat.own.get("sampling.temperature") == 0.25)
    # A value as for all chats is not the chat's own.
    set_temperature(app, "")
    assert "sampling.temperature" not in app.parts.chat.own


async def test_a_refused_value_changes_nothing(app: App, engine: FakeEngine) -> None:
    opened(app)
    set_temperature(app, "1000")
    assert app.parts.chat.own == {}


async def test_the_thinking_switch_is_of_the_chat_and_of_what_is_read_in_idle_time(
    app: App, engine: FakeEngine
) -> None:
    await until(lambda: find(app, QAbstractButton, "thinkingSwitch").isVisible())
    asked = await send(app, engine, "one")
    assert asked.command.thinking is None
    asked.finish("first")
    await ended(app)
    press(app, "thinkingSwitch")
    asked = await send(app, engine, "two")
    assert asked.command.thinking is False
    asked.finish("second")
    await ended(app)
    await until(lambda: engine.settled and engine.settled[-1].thinking is False)
    press(app, "thinkingSwitch")
    assert (await send(app, engine, "three")).command.thinking is True


async def test_a_preset_bundles_and_new_chats_begin_with_the_default_one(
    app: App, engine: FakeEngine, folders: Folders
) -> None:
    opened(app)
    app.parts.chat.instruct("Answer in verse.")
    app.parts.chat.ask_for(JSON)
    set_temperature(app, "0.5")
    find(app, QLineEdit, "presetName").setText(" My  poet ")
    press(app, "presetSave")
    preset = app.parts.settings.settings.presets.named("My poet")
    values = {"sampling.temperature": 0.5}
    assert preset == Preset(name="My poet", system="Answer in verse.", format=JSON, values=values)
    press(app, "presetDefault")
    assert words(app, "ownDiffers") == "The same as the default for new chats."
    asked = await send(app, engine, "one")
    assert asked.command.sampling.temperature == 0.5
    assert asked.command.format == JSON
    asked.finish("{}")
    await ended(app)
    app.parts.chat.open(None)
    await until(lambda: app.parts.transcript.chat is None)
    assert app.parts.chat.instructions == "Answer in verse."
    assert app.parts.chat.own == values
    stored = json.loads(folders.settings_file.read_text())["presets"]
    assert stored["default"] == "My poet"
    # Without a default, new chats begin with nothing of their own again.
    press(app, "presetDelete")
    await until(lambda: app.parts.chat.instructions == "")
    assert app.parts.chat.own == {}
    press(app, "toastAction")
    assert app.parts.chat.own == values


async def test_a_preset_that_is_replaced_can_be_brought_back(app: App) -> None:
    dialog = opened(app)
    for temperature in ("0.5", "0.7"):
        set_temperature(app, temperature)
        find(app, QLineEdit, "presetName").setText("Poet")
        press(app, "presetSave")
    assert words(app, "toastText") == "The preset Poet is replaced."
    assert saved_temperature(app) == 0.7
    # Over the window it would be hidden behind the dialog.
    toast = app.window.toast
    await until(dialog.isActiveWindow)
    press(app, "presetDelete")
    assert toast.parentWidget() is dialog and toast.isVisible()
    assert dialog.rect().contains(toast.geometry())
    press(app, "toastAction")
    assert saved_temperature(app) == 0.7
    press(app, "presetDelete")
    dialog.close()
    assert toast.parentWidget() is app.window.page and toast.isVisible()
    press(app, "toastAction")
    assert saved_temperature(app) == 0.7 and not toast.isVisible()
    press(app, "presetDefault")
    press(app, "presetDelete")
    assert saved_temperature(app) is None
    find(app, QLineEdit, "presetName").setText("Other")
    press(app, "presetSave")
    press(app, "toastAction")
    presets = app.parts.settings.settings.presets
    assert [each.name for each in presets.presets] == ["Other", "Poet"]
    assert presets.default == "Poet"


def saved_temperature(app: App) -> object:
    preset = app.parts.settings.settings.presets.named("Poet")
    return preset and preset.values["sampling.temperature"]


async def test_a_long_name_of_a_preset_is_elided(app: App) -> None:
    opened(app)
    name = "A preset with a name that is longer than its box"
    app.parts.chat_settings.save(name, with_model=False)
    box = find(app, QComboBox, "presetBox")
    option = QStyleOptionComboBox()
    box.initStyleOption(option)
    assert option.currentText.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert box.currentText() == name


async def test_presets_and_own_values_survive_a_restart(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    opened(app)
    set_temperature(app, "0.5")
    app.parts.chat_settings.save("Cold", with_model=True)
    (await send(app, engine, "one")).finish("first")
    await ended(app)
    await app.parts.close()
    app.window.leave()
    app = await open_app()
    await until(lambda: app.parts.chat_list.chats)
    app.parts.chat.open(1)
    await until(lambda: app.parts.chat.own == {"sampling.temperature": 0.5})
    assert app.parts.settings.settings.presets.named("Cold") is not None


def test_values_that_this_version_cannot_read_are_skipped() -> None:
    own = {
        "sampling.temperature": "hot",
        "sampling.unknown": 1,
        "sampling.top_k": 5,
        "thinking": "yes",
        "window.theme": "dark",
        "": 1,
    }
    usual = AppSettings()
    sampling = usual.sampling.model_copy(update={"top_k": 5})
    assert with_own(usual, own) == usual.model_copy(update={"sampling": sampling})
