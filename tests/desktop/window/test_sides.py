from __future__ import annotations

import pytest
from PySide6.QtCore import QRect, QSize
from PySide6.QtGui import QScreen
from PySide6.QtWidgets import QApplication

from desktop.app import App
from desktop.window.sides import FRAME, fitted, fitted_size
from tests.desktop.conftest import OpenApp
from tests.desktop.hands import Windows, press, settle

ALL_THREE = 934


async def resized(app: App, width: int) -> tuple[bool, bool]:
    app.window.resize(width, 600)
    await settle()
    assert app.window.width() == width
    return seen(app)


def seen(app: App) -> tuple[bool, bool]:
    return app.window.side_bar.isVisible(), app.window.side_panel.isVisible()


async def test_the_sides_fold_and_come_back(open_app: OpenApp) -> None:
    app = await open_app()
    assert await resized(app, ALL_THREE) == (True, True)
    for width in (ALL_THREE - 1, 900, 540):
        assert await resized(app, width) == (True, False)
    assert await resized(app, 1280) == (True, True)
    assert app.window.page.width() > 500
    # A side that the user folded stays folded.
    press(app, "toggleSide")
    assert await resized(app, 700) == (True, False)
    assert await resized(app, 1280) == (True, False)
    press(app, "toggleSide")
    assert seen(app) == (True, True)
    # A narrow window shows the side asked for last.
    assert await resized(app, 700) == (False, True)
    press(app, "toggleChats")
    assert seen(app) == (True, False)
    press(app, "toggleSide")
    assert seen(app) == (False, True)
    press(app, "toggleChats")
    app.window.actions_by_name["actionSettings"].trigger()
    assert seen(app) == (False, True)
    assert await resized(app, 1280) == (True, True)
    # A window too narrow for the right side grows with it.
    await resized(app, 540)
    press(app, "toggleSide")
    await settle()
    assert seen(app) == (False, True)
    assert app.window.width() == 683
    # A side that folded by itself is there again at the next start.
    press(app, "toggleChats")
    await resized(app, 700)
    app.leave()
    await app.gone.wait()
    again = await open_app()
    assert seen(again) == (True, False)
    assert await resized(again, 1280) == (True, True)


@pytest.mark.parametrize("screen", [QRect(0, 0, 1366, 768), QRect(0, 0, 800, 500)])
async def test_the_first_window_fits_on_the_screen(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, screen: QRect
) -> None:
    monkeypatch.setattr(QScreen, "availableGeometry", lambda _self: screen)
    app = await open_app()
    await settle()
    assert screen.contains(QRect(screen.topLeft(), app.window.size()))
    assert app.window.side_panel.isVisible() == (screen.width() > ALL_THREE)


async def test_a_window_left_on_a_screen_that_is_gone_comes_back_whole(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await open_app()
    app.window.setGeometry(1000, 500, 900, 650)
    app.leave()
    await app.gone.wait()
    screen = QRect(0, 0, 800, 500)
    monkeypatch.setattr(QScreen, "availableGeometry", lambda _self: screen)
    again = await open_app()
    await settle()
    assert screen.contains(again.window.geometry())
    assert again.window.size().boundedTo(QSize(800, 460)) == again.window.size()


async def test_nothing_but_the_window_is_shown_as_one(
    open_app: OpenApp, qapp: QApplication
) -> None:
    windows = Windows(qapp)
    app = await open_app()
    app.window.side_panel.show_page(1)
    await settle()
    assert windows.shown == ["mainWindow"]


SMALL, LARGE = QRect(0, 0, 1366, 768), QRect(1366, 0, 2560, 1400)


@pytest.mark.parametrize("screen", [SMALL, QRect(0, 0, 800, 500), QRect(70, 30, 1024, 700)])
def test_the_first_size_leaves_room_for_the_frame(screen: QRect) -> None:
    size = fitted_size(QSize(1280, 820), screen)
    assert (size + FRAME).boundedTo(screen.size()) == size + FRAME
    assert fitted_size(QSize(300, 200), screen) == QSize(300, 200)


@pytest.mark.parametrize(
    ("window", "place"),
    [
        # As it was left.
        (QRect(100, 100, 900, 600), QRect(100, 100, 900, 600)),
        (QRect(1500, 200, 2000, 1000), QRect(1500, 200, 2000, 1000)),
        (QRect(0, 0, 1366, 768), QRect(0, 0, 1366, 768)),
        # Hanging over an edge, and on a screen that is gone.
        (QRect(-300, -50, 900, 600), QRect(0, 0, 900, 600)),
        (QRect(3900, 100, 900, 600), QRect(3026, 100, 900, 600)),
        (QRect(9000, 9000, 900, 600), QRect(466, 168, 900, 600)),
        # Larger than the screen it lies on.
        (QRect(10, 10, 2000, 760), QRect(8, 10, 1358, 728)),
    ],
)
def test_a_window_comes_back_whole_on_a_screen(window: QRect, place: QRect) -> None:
    assert fitted(window, [SMALL, LARGE]) == place
