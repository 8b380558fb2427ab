from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from desktop.views.widgets import picture_viewer
from desktop.views.widgets.picture_canvas import PictureCanvas
from desktop.views.widgets.picture_viewer import PictureViewer, read_picture
from tests.desktop.widgets import samples


def viewer(qtbot: QtBot, path: Path) -> PictureViewer:
    widget = PictureViewer(str(path))
    widget.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(widget)
    widget.resize(400, 300)
    widget.show()
    return widget


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    samples.landscape(1600, 1200).save(str(path))
    return path


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


def test_it_opens_fitted_and_stays_so(qtbot: QtBot, picture: Path) -> None:
    window = viewer(qtbot, picture)
    canvas = window.canvas()
    assert canvas.is_fitted()
    assert window.error() == ""
    before = canvas.zoom()
    assert before == pytest.approx(canvas.viewport().height() / 1200, rel=0.01)
    window.resize(800, 600)
    assert canvas.zoom() > 1.5 * before


def test_a_small_picture_is_not_blown_up(qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "small.png"
    samples.landscape(40, 30).save(str(path))
    window = viewer(qtbot, path)
    assert window.canvas().zoom() == 1


def test_one_to_one_and_back(qtbot: QtBot, picture: Path) -> None:
    window = viewer(qtbot, picture)
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    fitted = window.canvas().zoom()
    QTest.keyClick(window.canvas(), Qt.Key.Key_1)
    qtbot.waitUntil(lambda: window.canvas().zoom() == 1)
    label = window.findChild(QLabel, "pictureSize")
    assert isinstance(label, QLabel)
    assert label.text() == "1,600 x 1,200 pixels, 100 %"
    QTest.keyClick(window.canvas(), Qt.Key.Key_F)
    qtbot.waitUntil(lambda: window.canvas().zoom() == pytest.approx(fitted))


def test_the_wheel_zooms_within_bounds(qtbot: QtBot, picture: Path) -> None:
    window = viewer(qtbot, picture)
    canvas = window.canvas()
    before = canvas.zoom()
    turn_wheel(canvas, 120)
    assert before * 1.1 < canvas.zoom() < before * 1.3
    assert not canvas.is_fitted()
    for _ in range(100):
        turn_wheel(canvas, 1200)
    assert canvas.zoom() == pytest.approx(32)


def test_dragging_pans(qtbot: QtBot, picture: Path) -> None:
    window = viewer(qtbot, picture)
    canvas = window.canvas()
    canvas.show_one_to_one()
    before = canvas.mapToScene(QPoint(0, 0))
    view = canvas.viewport()
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(200, 150))
    QTest.mouseMove(view, QPoint(150, 120))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(150, 120))
    moved = canvas.mapToScene(QPoint(0, 0)) - before
    assert (moved.x(), moved.y()) == (50, 30)


def test_escape_closes_it(qtbot: QtBot, picture: Path) -> None:
    window = viewer(qtbot, picture)
    QTest.keyClick(window.canvas(), Qt.Key.Key_Escape)
    assert not window.isVisible()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.png", None),
        ("words.png", b"no picture at all"),
        ("drawing.svg", b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'),
        ("cut.png", samples.png(samples.landscape(64, 64))[:200]),
    ],
)
def test_failing_to_read_is_said_in_words(
    qtbot: QtBot, tmp_path: Path, name: str, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    window = viewer(qtbot, tmp_path / name)
    assert window.error().startswith("This picture")
    label = window.findChild(QLabel, "pictureError")
    assert isinstance(label, QLabel)
    assert label.isVisible()
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert not window.isVisible()


def test_a_very_large_picture_is_read_reduced(
    picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture_viewer, "MOST_PIXELS", 160 * 120)
    image, size, error = read_picture(str(picture))
    assert (image.size(), size, error) == (QSize(160, 120), QSize(1600, 1200), "")


def test_a_photo_stands_upright(tmp_path: Path) -> None:
    # A JPEG whose camera was held sideways: stored 40 x 20, orientation 6.
    path = tmp_path / "photo.jpg"
    QImage(40, 20, QImage.Format.Format_RGB32).save(str(path))
    plain = path.read_bytes()
    exif = (
        b"\xff\xe1\x00\x22Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01"
        b"\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
    )
    path.write_bytes(plain[:2] + exif + plain[2:])
    image, size, _error = read_picture(str(path))
    assert image.size() == size == QSize(20, 40)
