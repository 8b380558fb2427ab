from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from core.api.errors import ImageUnreadableError
from core.api.events import ImageRendered
from desktop.pictures.picture_viewer import MOST_PIXELS, PictureCanvas, PictureViewer
from desktop.pictures.pictures import image_of
from desktop.store.tables.records import Picture
from tests.desktop.hands import child
from tests.desktop.widgets import samples

pytestmark = pytest.mark.usefixtures("dressed")

Asked = list[tuple[int, int]]


def picture(width: int = 1600, height: int = 1200) -> Picture:
    thumbnail = samples.png(samples.landscape(64, max(1, 64 * height // width)))
    return Picture("0" * 64, "name", (width, height), thumbnail=thumbnail)


def rendered(width: int, height: int, colour: str = "red") -> QImage:
    image = QImage(width, height, QImage.Format.Format_RGBA8888)
    image.fill(QColor(colour))
    return image


def viewer(qtbot: QtBot, shown: Picture, answers: bool = True) -> tuple[PictureViewer, Asked]:
    """Each wish for pixels is granted at once."""
    asked: Asked = []
    widget = PictureViewer(shown)
    widget.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(widget)
    widget.pixels_wanted.connect(lambda *size: asked.append(size))
    if answers:
        widget.pixels_wanted.connect(lambda *size: widget.show_pixels(rendered(*size)))
    widget.resize(400, 300)
    widget.show()
    return widget, asked


def size_words(window: PictureViewer) -> str:
    label = child(window, QLabel, "pictureSize")
    return label.text()


def colour_shown(window: PictureViewer) -> QColor:
    image = window.canvas.viewport().grab().toImage()
    return image.pixelColor(image.width() // 2, image.height() // 2)


def turn_wheel(canvas: PictureCanvas, units: int) -> None:
    middle = canvas.viewport().rect().center()
    event = QWheelEvent(
        QPointF(middle),
        QPointF(canvas.viewport().mapToGlobal(middle)),
        QPoint(),
        QPoint(0, units),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas.viewport(), event)


def test_it_asks_for_as_many_pixels_as_are_seen_and_a_few_more(qtbot: QtBot) -> None:
    window, asked = viewer(qtbot, picture())
    seen = window.canvas.zoom() * 1600
    (width, height) = asked[0]
    assert seen < width < 1.5 * seen
    assert height == pytest.approx(width * 0.75, abs=1)
    assert len(asked) == 1
    assert window.shown == QSize(width, height)
    assert colour_shown(window) == QColor("red")


def test_the_thumbnail_is_shown_until_pixels_arrive_in_any_order(qtbot: QtBot) -> None:
    window, _asked = viewer(qtbot, picture(), answers=False)
    assert window.shown.isEmpty() and window.error() == ""
    before = colour_shown(window)
    assert before != window.palette().window().color()
    window.show_pixels(rendered(1600, 1200))
    assert colour_shown(window) == QColor("red") != before
    window.show_pixels(rendered(800, 600, "lime"))
    assert window.shown == QSize(1600, 1200)
    assert colour_shown(window) == QColor("red")


def test_after_zooming_in_it_asks_for_more_once(qtbot: QtBot) -> None:
    window, asked = viewer(qtbot, picture())
    turn_wheel(window.canvas, -600)
    window.canvas.fit()
    qtbot.wait(250)
    assert len(asked) == 1
    for _ in range(20):
        turn_wheel(window.canvas, 120)
    assert len(asked) == 1
    qtbot.waitUntil(lambda: len(asked) == 2)
    assert asked[1] == (1600, 1200)
    for _ in range(10):
        turn_wheel(window.canvas, 120)
    qtbot.wait(250)
    assert len(asked) == 2  # there are no more


def test_of_a_very_large_picture_it_asks_for_so_many_pixels_and_says_so(qtbot: QtBot) -> None:
    window, asked = viewer(qtbot, picture(8_000, 6_000))
    window.canvas.show_one_to_one()
    qtbot.waitUntil(lambda: len(asked) == 2)
    width, height = asked[1]
    assert 0.95 * MOST_PIXELS < width * height <= MOST_PIXELS * 1.01
    assert size_words(window) == "8,000 x 6,000 pixels, shown reduced, 100 %"


def test_it_opens_fitted_stays_so_and_is_not_enlarged(qtbot: QtBot) -> None:
    window, _asked = viewer(qtbot, picture())
    canvas = window.canvas
    assert window.error() == ""
    before = canvas.zoom()
    assert before == pytest.approx(canvas.viewport().height() / 1200, rel=0.01)
    window.resize(800, 600)
    assert canvas.zoom() > 1.5 * before
    window, asked = viewer(qtbot, picture(40, 30))
    assert window.canvas.zoom() == 1
    assert asked == [(40, 30)]


def test_one_to_one_and_back(qtbot: QtBot) -> None:
    window, _asked = viewer(qtbot, picture())
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    fitted = window.canvas.zoom()
    QTest.keyClick(window.canvas, Qt.Key.Key_1)
    qtbot.waitUntil(lambda: window.canvas.zoom() == 1)
    qtbot.waitUntil(lambda: size_words(window) == "1,600 x 1,200 pixels, 100 %")
    QTest.keyClick(window.canvas, Qt.Key.Key_F)
    qtbot.waitUntil(lambda: window.canvas.zoom() == pytest.approx(fitted))
    QTest.keyClick(window.canvas, Qt.Key.Key_Escape)
    assert not window.isVisible()


def test_the_wheel_zooms_within_bounds(qtbot: QtBot) -> None:
    window, _asked = viewer(qtbot, picture())
    canvas = window.canvas
    before = canvas.zoom()
    turn_wheel(canvas, 120)
    assert before * 1.1 < canvas.zoom() < before * 1.3
    zoom = canvas.zoom()
    window.resize(500, 400)
    assert canvas.zoom() == zoom
    for _ in range(100):
        turn_wheel(canvas, 1200)
    assert canvas.zoom() == pytest.approx(32)


def test_dragging_pans(qtbot: QtBot) -> None:
    window, _asked = viewer(qtbot, picture())
    canvas = window.canvas
    canvas.show_one_to_one()
    before = canvas.mapToScene(QPoint(0, 0))
    view = canvas.viewport()
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(200, 150))
    QTest.mouseMove(view, QPoint(150, 120))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(150, 120))
    moved = canvas.mapToScene(QPoint(0, 0)) - before
    assert (moved.x(), moved.y()) == (50, 30)


@pytest.mark.parametrize(("width", "height", "size"), [(0, 0, 0), (40, 30, 5), (40, 30, 4801)])
def test_pixels_that_do_not_fit_their_size_are_no_picture(
    width: int, height: int, size: int
) -> None:
    sent = ImageRendered(request=0, width=width, height=height, pixels=b"\xff" * size)
    with pytest.raises(ImageUnreadableError, match="no valid picture"):
        image_of(sent)
    whole = ImageRendered(request=0, width=1, height=2, pixels=b"\xff\0\0\xff" * 2)
    assert image_of(whole).size() == QSize(1, 2)
    assert image_of(whole).pixelColor(0, 1) == QColor("red")


def test_that_there_is_no_picture_is_said_in_words(qtbot: QtBot) -> None:
    window, _asked = viewer(qtbot, picture(), answers=False)
    window.show_error("This picture can't be read.")
    assert window.error() == "This picture can't be read."
    label = child(window, QLabel, "pictureError")
    assert label.isVisible()
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert not window.isVisible()


@pytest.mark.parametrize("png", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a" * 9])
def test_a_picture_without_a_thumbnail_opens_empty(qtbot: QtBot, png: bytes) -> None:
    window, asked = viewer(qtbot, Picture("0" * 64, "name", (40, 30), thumbnail=png))
    assert asked == [(40, 30)]
    assert window.error() == ""


def test_a_picture_stays_if_more_of_it_fails_and_is_asked_for_again(qtbot: QtBot) -> None:
    window, asked = viewer(qtbot, picture(), answers=False)
    qtbot.waitUntil(lambda: len(asked) == 1)
    window.show_pixels(rendered(*asked[0]))
    window.canvas.show_one_to_one()
    qtbot.waitUntil(lambda: len(asked) == 2)
    window.show_error("It could not be read.")
    assert window.error() == "" and colour_shown(window) == QColor("red")
    window.canvas.fit()
    window.canvas.show_one_to_one()
    qtbot.waitUntil(lambda: len(asked) == 3)
