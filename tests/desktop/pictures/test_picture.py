from __future__ import annotations

import struct

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel
from pytestqt.qtbot import QtBot

from desktop.pictures.picture_strip import LARGEST, SMALLEST, PictureThumbnail, read_thumbnail
from desktop.widgets.icon_button import IconButton
from tests.desktop.hands import child
from tests.desktop.widgets import samples

pytestmark = pytest.mark.usefixtures("dressed")

CAPTION = "4000 x 3000 \N{RIGHTWARDS ARROW} 1184 x 864, 999 tokens"


def thumbnail(
    qtbot: QtBot, size: tuple[int, int] = (480, 360), removable: bool = True
) -> PictureThumbnail:
    widget = PictureThumbnail(samples.png(samples.landscape(*size)), CAPTION, removable)
    qtbot.addWidget(widget)
    widget.show()
    return widget


def face(widget: PictureThumbnail) -> QAbstractButton:
    found = widget.focusProxy()
    assert isinstance(found, QAbstractButton)
    return found


def test_pressing_it_opens_it(qtbot: QtBot) -> None:
    widget = thumbnail(qtbot)
    with qtbot.waitSignal(widget.opened):
        QTest.mouseClick(face(widget), Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(widget.opened):
        QTest.keyClick(face(widget), Qt.Key.Key_Space)
    assert face(widget).focusPolicy() & Qt.FocusPolicy.TabFocus
    assert face(widget).accessibleName() == f"Picture, {CAPTION}"


def test_it_is_taken_out_by_button_and_by_key(qtbot: QtBot) -> None:
    widget = thumbnail(qtbot)
    button = child(widget, IconButton)
    with qtbot.waitSignal(widget.removed):
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(widget.removed):
        QTest.keyClick(face(widget), Qt.Key.Key_Delete)


def test_what_was_sent_is_not_taken_out(qtbot: QtBot) -> None:
    widget = thumbnail(qtbot, removable=False)
    assert widget.findChild(IconButton) is None
    with qtbot.assertNotEmitted(widget.removed, wait=20):
        QTest.keyClick(face(widget), Qt.Key.Key_Delete)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((480, 360), LARGEST),
        ((2000, 10), QSize(168, 64)),
        ((8, 8), SMALLEST),
        ((300, 600), QSize(64, 126)),
    ],
)
def test_its_shape_is_the_pictures(qtbot: QtBot, size: tuple[int, int], expected: QSize) -> None:
    widget = thumbnail(qtbot, size)
    assert face(widget).size() == expected


def test_the_picture_is_drawn(qtbot: QtBot) -> None:
    widget = thumbnail(qtbot)
    image = face(widget).grab().toImage()
    colours = [image.pixelColor(80, y).name() for y in (20, 100)]
    assert colours == ["#7fb2d9", "#3f6560"]


def test_what_is_no_picture_says_so_in_its_place(qtbot: QtBot) -> None:
    widget = PictureThumbnail(b"not a picture", "", False)
    qtbot.addWidget(widget)
    widget.show()
    blank = face(widget).grab().toImage()
    colours = {blank.pixelColor(x, 63).name() for x in range(40, 130)}
    assert len(colours) > 2  # words are drawn there


def test_the_whole_caption_is_visible(qtbot: QtBot) -> None:
    widget = thumbnail(qtbot)
    label = child(widget, QLabel, "pictureCaption")
    assert widget.caption() == CAPTION
    assert label.height() >= label.heightForWidth(label.width())
    assert label.geometry().top() >= face(widget).geometry().bottom()
    widget.set_caption("")
    assert not label.isVisible()


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"no picture",
        b"GIF89a" + bytes(40),
        # A header that claims 30,000 x 30,000 pixels.
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
        + struct.pack(">II", 30_000, 30_000)
        + b"\x08\x06"
        + bytes(99),
        samples.png(samples.landscape(64, 48))[:60],
    ],
)
def test_damage_costs_the_thumbnail_and_nothing_else(qtbot: QtBot, damaged: bytes) -> None:
    assert read_thumbnail(damaged).isNull()
    widget = PictureThumbnail(damaged, CAPTION, False)
    qtbot.addWidget(widget)
    widget.show()
    assert face(widget).size() == LARGEST
