from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QLabel,
    QLineEdit,
    QMenu,
    QToolButton,
)

from desktop.app import App
from desktop.engine.engine_status import Phase
from desktop.store.folders import DEMO_MODEL
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info
from tests.desktop.hands import child, ended, find, press, send, settle, words


def entries(app: App) -> dict[str, bool]:
    menu = app.window.page.header.model.menu_shown()
    return {each.text(): each.isChecked() for each in menu.actions() if each.text()}


def choose(app: App, words: str) -> None:
    menu = app.window.page.header.model.menu_shown()
    (found,) = [each for each in menu.actions() if each.text() == words]
    found.trigger()


async def test_the_models_name_opens_a_menu_of_models(app: App, engine: FakeEngine) -> None:
    await until(lambda: words(app, "modelName") == "stand-in")
    for path in ("/models/a", "/models/b"):
        app.parts.settings.set_model_path(path)
    press(app, "modelName")
    assert find_menu(app).isVisible()
    find_menu(app).hide()
    assert entries(app) == {
        "b": False,
        "a": False,
        # Of a folder that was chosen it is not known yet whether it loads.
        "The demo model": True,
        "All models…": False,
        "On this computer": False,
        "On a server": False,
        "Compare two models…": False,
        "Get a model…": False,
        "Choose a folder…": False,
        "Choose a GGUF file…": False,
        "Model settings": False,
    }
    choose(app, "a")
    await until(lambda: len(engine.loads) == 2)
    assert engine.loads[1].path == "/models/a"
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    assert entries(app)["a"]
    choose(app, "a")
    await settle()
    assert len(engine.loads) == 2


async def test_model_settings_are_seen_whatever_the_page_showed(app: App) -> None:
    settings = app.window.side_panel.settings
    app.window.side_panel.show_page(1)
    find(app, QLineEdit, "settingsSearch").setText("penalty")
    press(app, "partModel")
    app.window.side_panel.show_page(0)
    choose(app, "Model settings")
    assert settings.isVisible()
    assert find(app, QComboBox, "modelFolder").isVisible()
    settings.verticalScrollBar().setValue(settings.verticalScrollBar().maximum())
    choose(app, "Model settings")
    assert settings.verticalScrollBar().value() == 0


async def test_the_demo_model_has_one_name(open_app: OpenApp, engine: FakeEngine) -> None:
    engine.model_to_load = model_info(name="demo", path=str(DEMO_MODEL))
    app = await open_app()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    assert words(app, "modelName") == "The demo model"
    assert entries(app)["The demo model"]


def find_menu(app: App) -> QMenu:
    return child(app.window, QMenu, "modelMenu")


async def test_a_long_name_is_shortened_and_the_tip_says_all(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    name = "a-model-with-a-very-long-name-of-more-than-one-part-int4"
    engine.model_to_load = model_info(name=name)
    app = await open_app()
    await until(lambda: words(app, "modelName").endswith("\N{HORIZONTAL ELLIPSIS}"))
    button = find(app, QToolButton, "modelName")
    assert name in button.toolTip() and button.width() <= 170
    assert button.accessibleName() == f"Model: {name}"


async def test_the_title_has_the_room_there_is(app: App, engine: FakeEngine) -> None:
    await until(lambda: app.parts.engine.model is not None)
    (await send(app, engine, "A title that is long enough to be cut")).finish("x")
    await ended(app)
    title, button = (find(app, QLabel, "chatTitle"), find(app, QToolButton, "toggleInstructions"))
    await until(lambda: title.text().startswith("A title"))
    app.window.resize(1280, 700)
    await settle()
    assert title.width() >= title.fontMetrics().horizontalAdvance(title.text())
    # The instructions stand beside it with their word, and without it where it is narrow.
    assert 0 < button.x() - title.geometry().right() < 20
    assert button.text() == "Instructions"
    assert button.toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonTextBesideIcon
    app.window.resize(540, 700)
    await settle()
    assert button.toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonIconOnly
    assert title.width() > 100
