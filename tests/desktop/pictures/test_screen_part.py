"""A part of the screen becomes a picture: in the screen's own pixels, or not at all."""

from __future__ import annotations

import asyncio

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QImage, QMouseEvent, QPainter, QPixmap, QScreen
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QWidget

from desktop.app import App
from desktop.pictures import screen_part
from desktop.pictures.screen_part import ScreenCover
from desktop.window.commands import WHY_NOT
from desktop.window.menus import ShortcutsDialog
from tests.desktop.conftest import OpenApp, until
from tests.desktop.hands import find, press, words

LEFT, RIGHT = Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton
# Where a screen on the right of a larger one is.
PLACE = QRect(1920, 40, 60, 40)


def picture(width: int, height: int) -> QPixmap:
    """Red, with blue from 10 and 5 to 30 and 20 of sixty by forty parts."""
    pixmap = QPixmap(width, height)
    pixmap.fill(QColor("red"))
    painter = QPainter(pixmap)
    painter.scale(width / 60, height / 40)
    painter.fillRect(QRect(10, 5, 20, 15), QColor("blue"))
    painter.end()
    return pixmap


def mouse(cover: QWidget, kind: QEvent.Type, at: QPointF, button: Qt.MouseButton) -> None:
    # Where the window is may differ from where it was put.
    event = QMouseEvent(kind, QPointF(1, 1), at, button, button, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(cover, event)


def drag(cover: QWidget, start: tuple[int, int], end: tuple[int, int]) -> None:
    for kind, at in (
        (QEvent.Type.MouseButtonPress, start),
        (QEvent.Type.MouseMove, end),
        (QEvent.Type.MouseButtonRelease, end),
    ):
        mouse(cover, kind, QPointF(*at), LEFT)


@pytest.mark.parametrize(
    ("start", "end", "size"),
    [
        ((10, 5), (30, 20), (20, 15)),
        ((30, 20), (10, 5), (20, 15)),  # from the lower right
        ((10, 5), (99, 99), (50, 35)),  # out of the screen
    ],
)
@pytest.mark.parametrize("ratio", [1, 1.5, 2])
@pytest.mark.usefixtures("qloop")
async def test_the_dragged_part_has_the_screens_own_pixels(
    start: tuple[int, int], end: tuple[int, int], size: tuple[int, int], ratio: float
) -> None:
    chosen: asyncio.Future[QImage] = asyncio.get_running_loop().create_future()
    shot = picture(round(60 * ratio), round(40 * ratio))
    cover = ScreenCover(shot, PLACE, chosen)
    corner = PLACE.topLeft()
    drag(cover, *((each[0] + corner.x(), each[1] + corner.y()) for each in (start, end)))
    image = await chosen
    wide, high = (-(-each * ratio // 1) for each in size)
    assert abs(image.width() - wide) <= 1 and abs(image.height() - high) <= 1
    assert image.devicePixelRatio() == 1
    assert image.pixelColor(round(3 * ratio), round(3 * ratio)) == QColor("blue")
    if size == (20, 15):
        last = QPoint(image.width() - 2, image.height() - 2)
        assert image.pixelColor(last) == QColor("blue")
    # What was chosen stays chosen.
    QTest.keyClick(cover, Qt.Key.Key_Escape)
    cover.close()


@pytest.mark.usefixtures("qloop")
async def test_a_click_chooses_nothing_and_enter_everything() -> None:
    chosen: asyncio.Future[QImage] = asyncio.get_running_loop().create_future()
    cover = ScreenCover(picture(120, 80), PLACE, chosen)
    drag(cover, (1930, 50), (1932, 90))
    assert not chosen.done()
    QTest.keyClick(cover, Qt.Key.Key_Return)
    assert (await chosen).size().toTuple() == (120, 80)


@pytest.mark.usefixtures("qloop")
@pytest.mark.parametrize("way", ["escape", "button", "close"])
async def test_a_choice_is_cancelled(way: str) -> None:
    chosen: asyncio.Future[QImage] = asyncio.get_running_loop().create_future()
    cover = ScreenCover(picture(60, 40), PLACE, chosen)
    if way == "escape":
        QTest.keyClick(cover, Qt.Key.Key_Escape)
    elif way == "button":
        mouse(cover, QEvent.Type.MouseButtonPress, QPointF(1940, 50), RIGHT)
    else:
        cover.show()
        cover.close()
    assert (await chosen).isNull()


def covers() -> list[QWidget]:
    found = [each for each in QApplication.topLevelWidgets() if isinstance(each, ScreenCover)]
    return [each for each in found if each.isVisible()]


async def begun(app: App, monkeypatch: pytest.MonkeyPatch, shot: QPixmap) -> None:
    monkeypatch.setattr(screen_part, "HIDING_S", 0)

    def picture_of(screen: QScreen) -> QPixmap:
        # Nothing of ours is in it.
        assert not [each for each in QApplication.topLevelWidgets() if each.isVisible()]
        return shot

    monkeypatch.setattr(screen_part, "picture_of", picture_of)
    press(app, "addScreen")


async def test_a_part_of_the_screen_joins_the_draft(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.window.actions_by_name["actionShortcuts"].trigger()
    dialog = find(app, QDialog, "shortcutsDialog")
    assert isinstance(dialog, ShortcutsDialog)
    await begun(app, monkeypatch, picture(1920, 1200))
    await until(covers)
    drag(covers()[0], (320, 150), (340, 170))
    draft = app.parts.chat.draft
    await until(lambda: draft.pictures and draft.complete)
    assert app.window.isVisible() and dialog.isVisible() and not covers()
    (added,) = draft.pictures
    assert added.name == "Part of the screen" and added.picture is not None
    image = QImage(str(app.parts.pictures.path_of(added.picture)))
    assert image.size().toTuple() == (20, 20) and image.pixelColor(9, 9) == QColor("blue")


async def test_asking_twice_gives_one_choice(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(app, monkeypatch, picture(1920, 1200))
    app.window.dialogs.choose_screen_part()
    await until(covers)
    app.window.dialogs.choose_screen_part()
    await asyncio.sleep(0)
    assert len(covers()) == 1
    QTest.keyClick(covers()[0], Qt.Key.Key_Escape)
    await until(app.window.isVisible)
    # Afterwards it can be asked for again.
    await begun(app, monkeypatch, picture(1920, 1200))
    await until(covers)


async def test_a_cancelled_choice_brings_the_window_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(app, monkeypatch, picture(1920, 1200))
    await until(covers)
    QTest.keyClick(covers()[0], Qt.Key.Key_Escape)
    await until(app.window.isVisible)
    assert not covers() and not app.parts.chat.draft.pictures
    # A narrow composer leaves the room to the field.
    app.window.resize(940, 600)
    await until(lambda: not find(app, QWidget, "addScreen").isVisible())


async def test_a_screen_that_can_t_be_read_is_named(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(app, monkeypatch, QPixmap())
    await until(lambda: "no picture of the screen" in words(app, "toastText"))
    assert app.window.isVisible() and not covers()


async def test_the_window_can_be_closed_during_a_choice(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(app, monkeypatch, picture(1920, 1200))
    await until(covers)
    app.window.close_asked.emit()
    await app.gone.wait()
    assert not covers()


async def test_wayland_has_no_part_of_the_screen_and_says_why(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setattr("sys.platform", "linux")
    app = await open_app()
    action = app.window.actions_by_name["actionAddScreen"]
    assert not action.isEnabled() and action.property(WHY_NOT).startswith("Wayland")
    assert not find(app, QWidget, "addScreen").isVisible()
