from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QLocale, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QComboBox,
    QLabel,
    QLineEdit,
    QPushButton,
    QStyleOptionComboBox,
    QWidget,
)

from core.api.errors import BudgetTooSmallError, InternalError, NotEnoughMemoryError
from core.api.model_info import LoadFacts, PrecisionChoice
from core.api.params import CacheSettings
from desktop.app import App
from desktop.engine.engine_status import Phase
from desktop.settings.controls import NumberBox, Switch
from desktop.store.folders import Folders
from tests.desktop.conftest import Loop, OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info
from tests.desktop.hands import ended, find, press, send, words

GB = 10**9


async def opened(open_app: OpenApp) -> App:
    app = await open_app()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    app.window.side_panel.show_page(1)
    return app


@pytest.fixture
def app(qloop: Loop, open_app: OpenApp) -> App:
    return qloop.run(opened(open_app))


def choose(app: App, name: str, way: int) -> None:
    find(app, QComboBox, name).setCurrentIndex(way)


def type_size(app: App, name: str, text: str) -> None:
    box = find(app, NumberBox, name)
    box.selectAll()
    QTest.keyClicks(box, text)
    QTest.keyClick(box, Qt.Key.Key_Return)


def type_number(app: App, name: str, text: str) -> None:
    field = find(app, QWidget, name)
    line = field.lineEdit() if isinstance(field, NumberBox) else field
    assert isinstance(line, QLineEdit)
    line.selectAll()
    QTest.keyClicks(line, text)
    QTest.keyClick(line, Qt.Key.Key_Return)


def trouble(app: App) -> list[str]:
    return [
        label.text()
        for label in app.window.side_panel.settings.findChildren(QLabel)
        if "error" in str(label.property("class")) and label.isVisible()
    ]


async def test_count_and_interval_reach_the_next_request(
    app: App, engine: FakeEngine, folders: Folders
) -> None:
    assert words(app, "costCacheCount") == "32 checkpoints: up to 33.6 MB (1.0 MB each)."
    find(app, NumberBox, "settingCacheCount").setValue(5)
    find(app, NumberBox, "settingCacheInterval").setValue(700)
    assert words(app, "costCacheCount") == "5 checkpoints: up to 5.2 MB (1.0 MB each)."
    assert find(app, NumberBox, "settingCacheInterval").value() == 1024
    shown = [label.text() for label in app.window.side_panel.settings.findChildren(QLabel)]
    assert "Rounded up to 1,024, a multiple of 512." in shown
    assert "at most 1,535 tokens" in words(app, "costCacheInterval")
    asked = await send(app, engine, "Hello")
    assert (asked.command.cache.count, asked.command.cache.interval) == (5, 1024)
    assert asked.command.cache.restore == "when_faster"
    assert len(engine.loads) == 1
    assert '"count": 5' in folders.settings_file.read_text()
    asked.finish("x")
    await ended(app)
    box = find(app, NumberBox, "settingCacheInterval")
    for steps, interval in ((1, 1536), (-99, 512), (99, 32_768)):
        box.stepBy(steps)
        assert app.parts.settings.settings.cache.interval == interval
    assert trouble(app) == []
    # Every load names the folder that outlives a restart; the file doesn't.
    assert not app.parts.settings.needs_load
    app.parts.settings.load()
    await until(lambda: len(engine.loads) == 2)
    assert {load.cache_folder for load in engine.loads} == {str(folders.contexts)}
    assert folders.contexts.stat().st_mode & 0o777 == 0o700
    assert str(folders.contexts) not in folders.settings_file.read_text()


async def test_a_budget_is_automatic_a_size_or_nothing(
    app: App, engine: FakeEngine, folders: Folders
) -> None:
    host = find(app, QComboBox, "settingCacheHostBytes")
    assert host.currentText() == "Automatic: 2.0 GB"
    assert find(app, QComboBox, "settingCacheDiskBytes").currentText() == "Automatic: 10.0 GB"
    assert not find(app, NumberBox, "sizeCacheHostBytes").isVisible()
    assert "Room for a full context of 4,096 tokens" in words(app, "costCacheHostBytes")
    assert host.count() == 2
    choose(app, "settingCacheHostBytes", 1)
    box = find(app, NumberBox, "sizeCacheHostBytes")
    assert box.isVisible() and box.lineEdit().text() == "2 GB"
    type_size(app, "sizeCacheHostBytes", "700 MB")
    choose(app, "settingCacheDiskBytes", 2)
    shown = find(app, QComboBox, "settingCacheDiskBytes").currentText()
    assert shown == "Save nothing on disk"
    assert "after a restart, chats are read again" in words(app, "costCacheDiskBytes")
    asked = await send(app, engine, "Hello")
    assert asked.command.cache.host_bytes == 700_000_000
    assert (asked.command.cache.disk_bytes, asked.command.cache.device_bytes) == (0, None)
    assert len(engine.loads) == 1
    asked.finish("x")
    await ended(app)
    box.stepBy(1)
    assert app.parts.settings.settings.cache.host_bytes == 768_000_000
    assert '"host_bytes": 768000000' in folders.settings_file.read_text()
    choose(app, "settingCacheHostBytes", 0)
    choose(app, "settingCacheDiskBytes", 0)
    assert app.parts.settings.settings.cache == CacheSettings(restore="when_faster")
    assert not box.isVisible()


async def test_a_size_that_can_not_be_is_refused_with_numbers(app: App) -> None:
    choose(app, "settingCacheHostBytes", 1)
    type_size(app, "sizeCacheHostBytes", "4 MB")
    (said,) = trouble(app)
    assert said.startswith("4 MB of memory is too small: a context of 4,096 tokens alone takes 4.2")
    assert said.endswith("The budget was not changed.")
    # What was typed is not changed behind the user's back, and it is not sent either.
    assert find(app, NumberBox, "sizeCacheHostBytes").lineEdit().text() == "4 MB"
    assert app.parts.settings.settings.cache.host_bytes == 2 * GB
    type_size(app, "sizeCacheHostBytes", "5 MB")
    assert trouble(app) == []
    assert app.parts.settings.settings.cache.host_bytes == 5_000_000
    type_size(app, "sizeCacheHostBytes", "plenty")
    assert trouble(app) == ["'plenty' is not a size. Write it like 1.5 GB or 700 MB."]
    assert app.parts.settings.settings.cache.host_bytes == 5_000_000
    assert find(app, NumberBox, "sizeCacheHostBytes").lineEdit().text() == "5 MB"
    for name, place in (
        ("CacheHostBytes", "memory"),
        ("CacheDiskBytes", "disk"),
        ("ModelWeightsBytes", "disk"),
    ):
        choose(app, f"setting{name}", 1)
        before = app.parts.settings.settings
        type_size(app, f"size{name}", "900 TB")
        (said,) = trouble(app)
        assert said.startswith("900 TB is more than this computer has: ")
        assert said.endswith(f" of {place}. The budget was not changed.")
        assert find(app, NumberBox, f"size{name}").lineEdit().text() == "900 TB"
        assert app.parts.settings.settings == before
        choose(app, f"setting{name}", 0)


@pytest.fixture
def german() -> Iterator[None]:
    before = QLocale()
    QLocale.setDefault(QLocale("de_DE"))
    yield
    QLocale.setDefault(before)


async def test_a_decimal_comma_is_no_thousands_separator(app: App) -> None:
    """0,7 was taken for 7, and 1,5 GB for 15 GB."""
    for name, typed in (
        ("settingSamplingTemperature", "0,7"),
        ("settingCacheCount", "1,5"),
        ("settingSamplingSeed", "1,5"),
    ):
        type_number(app, name, typed)
        assert trouble(app) == [
            f"'{typed}' could be read in more than one way. Write numbers like 1,234.5. "
            "The setting was not changed."
        ]
        type_number(app, name, "1")
        assert trouble(app) == []
    choose(app, "settingCacheHostBytes", 1)
    type_size(app, "sizeCacheHostBytes", "1,5 GB")
    (said,) = trouble(app)
    assert said.startswith("'1,5 GB' could be read in more than one way")
    settings = app.parts.settings.settings
    assert settings.cache.host_bytes == 2 * GB
    assert (settings.sampling.temperature, settings.sampling.seed) == (1, 1)
    assert settings.cache.count == 1


@pytest.mark.usefixtures("german")
async def test_fields_take_and_show_the_users_own_decimals(app: App) -> None:
    type_number(app, "settingSamplingTemperature", "0,7")
    assert app.parts.settings.settings.sampling.temperature == 0.7
    assert find(app, QLineEdit, "settingSamplingTemperature").text() == "0,7"
    type_number(app, "settingCacheInterval", "1.024")
    assert app.parts.settings.settings.cache.interval == 1024
    assert find(app, NumberBox, "settingCacheInterval").text() == "1.024"
    choose(app, "settingCacheHostBytes", 1)
    type_size(app, "sizeCacheHostBytes", "1,5 GB")
    assert trouble(app) == []
    assert app.parts.settings.settings.cache.host_bytes == 1_500_000_000
    assert find(app, NumberBox, "sizeCacheHostBytes").lineEdit().text() == "1,5 GB"
    type_number(app, "settingSamplingTemperature", "0.9")
    (said,) = trouble(app)
    assert said.startswith("'0.9' could be read in more than one way. Write numbers like 1.234,5.")


async def test_budgets_follow_the_model(app: App, engine: FakeEngine) -> None:
    device = find(app, QComboBox, "settingCacheDeviceBytes")
    assert not device.isVisible()
    app.parts.settings.set_value("cache.host_bytes", 5_000_000)
    assert trouble(app) == []
    engine.model_to_load = model_info(
        smallest_host_budget=6_000_000, device="cuda", device_budget=3 * GB
    )
    app.parts.settings.load()
    await until(lambda: app.parts.engine.model is engine.model_to_load)
    (said,) = trouble(app)
    assert "5 MB of memory is too small" in said and "takes 6.0 MB" in said
    assert app.parts.settings.settings.cache.host_bytes == 5_000_000
    assert device.isVisible() and device.currentText() == "Automatic: 3.0 GB"
    assert "of context." in words(app, "costCacheDeviceBytes")


async def test_the_engines_refusal_stands_beside_the_budgets_and_in_the_reply(
    app: App, engine: FakeEngine
) -> None:
    refusal = BudgetTooSmallError("The budget is 1 byte; 2 are needed.").info()
    (await send(app, engine, "Hello")).fail(refusal)
    await ended(app)
    assert words(app, "budgetTrouble") == "The budget is 1 byte; 2 are needed."
    assert "The memory budget is too small. The budget is 1 byte" in words(app, "replyEnding")
    (await send(app, engine, "Again")).fail(InternalError("no").info())
    await ended(app)
    assert words(app, "budgetTrouble") == ""


def kept(size: int) -> LoadFacts:
    return LoadFacts(
        seconds=2.1, packing_s=1.3, from_disk=True, kept_bytes=size, kept_budget=5 * GB
    )


async def test_quantised_weights_are_seen_deleted_and_limited(
    open_app: OpenApp, engine: FakeEngine, folders: Folders
) -> None:
    choice = PrecisionChoice(needed=2 * GB, free=20 * GB)
    engine.model_to_load = model_info(load=kept(1_200_000_000), precision="bfloat16", choice=choice)
    app = await opened(open_app)
    assert " Automatic: bfloat16, because it fits: it needs 2.0 GB" in words(app, "modelWords")
    assert "Loaded in 2.1 s, including 1.3 s to arrange the weights; quantised" in words(
        app, "modelWords"
    )
    assert words(app, "costModelWeightsBytes") == "1.2 GB saved, for all models."
    button = find(app, QPushButton, "deleteKeptWeights")
    button.click()
    await until(lambda: engine.deleted_matrices)
    assert engine.deleted_matrices == [str(folders.contexts)]
    await until(lambda: words(app, "costModelWeightsBytes") == "No quantised weights are saved.")
    assert not button.isEnabled()
    assert "Loaded in" in words(app, "modelWords")
    assert words(app, "modelWords").startswith("Qwen3.5, ")
    way = find(app, QComboBox, "settingModelWeightsBytes")
    assert way.currentText() == "Automatic: 5.0 GB"
    choose(app, "settingModelWeightsBytes", 2)
    assert way.currentText() == "Save nothing on disk"
    assert words(app, "modelWords") == "Press Load to apply these settings."
    press(app, "loadModel")
    await until(lambda: len(engine.loads) == 2)
    assert [load.weights_bytes for load in engine.loads] == [None, 0]


OUT_OF_RANGE = (
    ("CacheCount", "99999999", "99,999,999 is out of range: Checkpoints takes 0 to 256."),
    ("CacheCount", "-3", "-3 is out of range: Checkpoints takes 0 to 256."),
    ("CacheInterval", "64", "64 is out of range: Interval takes 512 to 32,768."),
    ("SamplingTopP", "1.5", "1.5 is out of range: Top p takes 0 to 1."),
    ("SamplingTopK", "many", "'many' is not a number: Top k takes 0 or more."),
    ("ModelContextLength", "15", "15 is out of range: Context length takes 16 or more."),
)


async def test_a_value_out_of_range_says_so_and_stays_to_be_seen(app: App, tmp_path: Path) -> None:
    for name, text, said in OUT_OF_RANGE:
        before = app.parts.settings.settings
        type_number(app, f"setting{name}", text)
        assert trouble(app) == [f"{said} The setting was not changed."]
        field = find(app, QWidget, f"setting{name}")
        line = field.lineEdit() if isinstance(field, NumberBox) else field
        assert isinstance(line, QLineEdit) and line.text().replace(",", "") == text
        assert app.parts.settings.settings == before
        # A value that is taken clears it, the one in force too.
        good = {"CacheCount": "32", "CacheInterval": "2048", "ModelContextLength": "16"}
        type_number(app, f"setting{name}", good.get(name, "1"))
        assert trouble(app) == []
    # The loaded model's limit; that of another folder is not known yet.
    type_number(app, "settingModelContextLength", "9000")
    assert trouble(app) == [
        "9,000 is more than this model can hold: its context has at most 8,192 tokens. The "
        "setting was not changed."
    ]
    type_number(app, "settingModelContextLength", "8192")
    assert trouble(app) == [] and app.parts.settings.settings.model.context_length == 8192
    app.parts.settings.set_model_path(str(tmp_path))
    type_number(app, "settingModelContextLength", "9000")
    assert trouble(app) == [] and app.parts.settings.settings.model.context_length == 9000


def recent(app: App) -> list[str]:
    return list(app.parts.settings.settings.recent_models)


async def test_a_folder_that_failed_leaves_the_recent_ones_unless_memory_alone_was_short(
    app: App, engine: FakeEngine
) -> None:
    app.parts.settings.set_model_path("/models/good")
    app.parts.settings.load()
    await until(lambda: len(engine.loads) == 2 and app.parts.engine.model)
    app.parts.settings.set_model_path("/models/broken")
    assert "/models/broken" in app.parts.settings.settings.recent_models
    good, engine.model_to_load = engine.model_to_load, None
    app.parts.settings.load()
    await until(lambda: trouble(app))
    assert "config.json is missing" in words(app, "modelWords")
    assert recent(app) == ["/models/good"]
    # A model that never ran is in no list.
    remembered = app.parts.settings.settings.library.models
    assert "/models/broken" not in [each.path for each in remembered]
    # The model that has stayed is what is set; the other is back in the list once it loads.
    assert app.parts.settings.settings.model.path == "/models/good"
    app.parts.settings.set_model_path("/models/broken")
    assert "config.json" not in words(app, "modelWords")
    engine.model_to_load = good
    app.parts.settings.load()
    await until(lambda: app.parts.settings.kept_path == "/models/broken")
    assert recent(app) == ["/models/broken", "/models/good"]
    app.parts.settings.set_model_path("/models/large")
    engine.model_to_load, engine.load_error = None, NotEnoughMemoryError("9 GB are needed.")
    app.parts.settings.load()
    await until(lambda: trouble(app))
    assert recent(app)[0] == "/models/large"
    # A long name is elided.
    name = "a model whose folder has a very long name"
    app.parts.settings.set_model_path(f"/models/{name}")
    box = find(app, QComboBox, "modelFolder")
    option = QStyleOptionComboBox()
    box.initStyleOption(option)
    assert option.currentText.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert box.currentText() == name


@pytest.mark.parametrize("keeps_model", [True, False])
async def test_cancelling_a_load_is_no_error(
    app: App, engine: FakeEngine, keeps_model: bool
) -> None:
    engine.may_load.clear()
    if not keeps_model:
        engine.model = None
    app.parts.settings.set_model_path("/models/other")
    app.parts.settings.load()
    await until(lambda: words(app, "engineState") == "Loading the model: 50 %")
    find(app, QPushButton, "loadModel").click()
    await until(lambda: app.parts.engine.status.phase in (Phase.READY, Phase.EMPTY))
    assert words(app, "modelWords").startswith("Loading was cancelled.")
    assert trouble(app) == [] and words(app, "toastText") == ""
    assert "/models/other" in app.parts.settings.settings.recent_models
    # It can be asked for again.
    load = find(app, QPushButton, "loadModel")
    assert load.text() == "Load" and load.isEnabled()


def shown_settings(app: App) -> set[str]:
    controls = app.window.side_panel.settings.findChildren(QWidget)
    shown = {each.objectName() for each in controls if each.isVisible()}
    return {name for name in shown if re.fullmatch("setting[A-Z].*", name)}


async def test_a_part_folds_and_stays_folded(open_app: OpenApp) -> None:
    app = await opened(open_app)
    assert {"settingCacheCount", "settingSamplingSeed"} <= shown_settings(app)
    press(app, "partMemory")
    assert "settingCacheCount" not in shown_settings(app)
    assert {"settingModelDevice", "settingSamplingSeed"} <= shown_settings(app)
    app.leave()
    await app.gone.wait()
    again = await opened(open_app)
    assert "settingCacheCount" not in shown_settings(again)
    press(again, "partMemory")
    assert "settingCacheCount" in shown_settings(again)


async def test_the_search_shows_what_fits_alone(app: App) -> None:
    app.window.activateWindow()
    press(app, "partWriting")
    search = find(app, QLineEdit, "settingsSearch")
    QTest.keyClicks(search, "Penalty")
    assert shown_settings(app) == {
        "settingSamplingRepetitionPenalty",
        "settingSamplingPresencePenalty",
        "settingSamplingFrequencyPenalty",
    }
    # What the costs and the reasons call them.
    search.setText("memory budget")
    assert shown_settings(app) == {"settingCacheHostBytes"}
    search.setText("graphics card memory")
    # On a processor there is none to set.
    assert shown_settings(app) == set()
    assert words(app, "settingsNotFound") == "No setting matches."
    for searched, found in (
        ("GPU", "settingModelDevice"),
        ("speculative", "settingDraftMode"),
        ("font", "settingWindowTextSize"),
        ("system prompt", "openInstructions"),
        ("kv cache", "settingCacheDiskBytes"),
        ("dark mode", "settingWindowTheme"),
        # What takes effect with Load is found with Load.
        ("context length", "settingModelContextLength"),
        ("context length", "loadModel"),
        # A part's title finds all of it.
        ("appearance", "settingWindowLanguage"),
        ("in the back", "settingBackgroundNotify"),
    ):
        search.setText(searched)
        assert find(app, QWidget, found).isVisible()
        assert words(app, "settingsNotFound") == ""
        assert not find(app, QWidget, "settingSamplingTopK").isVisible()
    QTest.keyClick(search, Qt.Key.Key_Escape)
    assert search.text() == ""
    assert "settingCacheCount" in shown_settings(app)
    assert "settingSamplingSeed" not in shown_settings(app)
    assert words(app, "settingsNotFound") == ""
    press(app, "partWriting")
    press(app, "openInstructions")
    await until(app.window.page.instructions.text.hasFocus)


def values(app: App) -> tuple[int, bool, float | None]:
    settings = app.parts.settings.settings
    return settings.cache.count, settings.ahead.settle, settings.sampling.top_p


async def test_defaults_are_restored_part_by_part_with_an_undo(app: App) -> None:
    settings = app.parts.settings
    settings.set_model_path("/models/mine")
    find(app, NumberBox, "settingCacheCount").setValue(5)
    type_number(app, "settingSamplingTopP", "0.5")
    switch = find(app, Switch, "settingAheadSettle")
    assert switch.isChecked() and switch.accessibleName()
    QTest.keyClick(switch, Qt.Key.Key_Space)
    switch.grab()
    changed = settings.settings
    assert values(app) == (5, False, 0.5)
    press(app, "restoreMemory")
    assert values(app) == (32, True, 0.5)
    assert words(app, "toastText") == "Memory: the defaults are restored."
    press(app, "toastAction")
    assert settings.settings == changed
    press(app, "restoreAll")
    assert values(app) == (32, True, None)
    assert settings.settings.model.path == "/models/mine"
    press(app, "toastAction")
    assert settings.settings == changed
