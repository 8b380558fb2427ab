from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from desktop.pictures.draft import DraftPicture
from desktop.pictures.picture_strip import MADE_AT_ONCE, PictureStrip
from desktop.store.tables.records import Picture
from tests.desktop.fake_engine import png
from tests.desktop.hands import child


def picture(number: int) -> Picture:
    return Picture(f"{number:064x}", f"{number}.png", (48 + number, 32), thumbnail=png())


@pytest.fixture
def strip(qtbot: QtBot) -> PictureStrip:
    widget = PictureStrip()
    qtbot.addWidget(widget)
    widget.resize(500, 200)
    return widget


def captions(strip: PictureStrip) -> list[str]:
    return [each.caption() for each in strip.thumbnails()]


def test_many_pictures_are_made_a_few_at_a_time(strip: PictureStrip, qtbot: QtBot) -> None:
    strip.show_pictures([picture(number) for number in range(50)])
    assert len(strip.thumbnails()) == MADE_AT_ONCE
    assert not strip.isHidden()
    qtbot.waitUntil(lambda: len(strip.thumbnails()) == 50)
    assert captions(strip) == [f"{48 + number} x 32" for number in range(50)]
    strip.show_pictures([])
    assert strip.thumbnails() == [] and strip.isHidden()


def test_only_what_is_another_is_made_anew(strip: PictureStrip, qtbot: QtBot) -> None:
    drafts = [DraftPicture(f"{number}.png") for number in range(10)]
    strip.show_draft(drafts)
    qtbot.waitUntil(lambda: len(strip.thumbnails()) == 10)
    before = strip.thumbnails()
    drafts[3] = replace(drafts[3], picture=picture(3))
    strip.show_draft(drafts)
    after = strip.thumbnails()
    assert [old is new for old, new in zip(before, after, strict=True)] == [
        place != 3 for place in range(10)
    ]
    assert after[3].caption() == "51 x 32"
    del drafts[0]
    strip.show_draft(drafts)
    assert strip.thumbnails() == after[1:]


def test_the_same_picture_twice_is_two_thumbnails(strip: PictureStrip) -> None:
    strip.show_pictures([picture(1), picture(1)])
    assert captions(strip) == ["49 x 32", "49 x 32"]


def turn_wheel(strip: PictureStrip, notches: int) -> bool:
    """Returns whether the strip took it."""
    place = QPointF(40, 40)
    event = QWheelEvent(
        place,
        strip.mapToGlobal(place),
        QPoint(),
        QPoint(0, -120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(strip.viewport(), event)
    return event.isAccepted()


def shown(strip: PictureStrip, qtbot: QtBot, drafts: list[DraftPicture]) -> None:
    strip.show_draft(drafts)
    strip.show()
    qtbot.waitUntil(lambda: len(strip.thumbnails()) == len(drafts))
    QApplication.processEvents()


def test_the_wheel_scrolls_sideways_and_then_what_lies_around(
    strip: PictureStrip, qtbot: QtBot
) -> None:
    strip.show_pictures([picture(number) for number in range(12)])
    strip.show()
    bar = strip.horizontalScrollBar()
    qtbot.waitUntil(lambda: len(strip.thumbnails()) == 12 and bar.maximum() > 500)
    assert not turn_wheel(strip, -1)
    assert turn_wheel(strip, 1) and bar.value() > 0
    while bar.value() < bar.maximum():
        assert turn_wheel(strip, 1)
    assert not turn_wheel(strip, 1)
    assert turn_wheel(strip, -1)


def test_pictures_are_counted_while_not_all_are_seen(strip: PictureStrip, qtbot: QtBot) -> None:
    count = child(strip, QLabel, "pictureCount")
    drafts = [DraftPicture(f"{at}.png", picture=picture(at)) for at in range(2)]
    shown(strip, qtbot, drafts)
    assert not count.isVisible()
    drafts += [DraftPicture(f"{at}.png", picture=picture(at)) for at in range(2, 9)]
    shown(strip, qtbot, drafts)
    qtbot.waitUntil(count.isVisible)
    assert count.text() == "9 pictures"
    assert count.geometry().bottom() <= strip.viewport().geometry().top()
    shown(strip, qtbot, drafts[:2])
    qtbot.waitUntil(lambda: not count.isVisible())


def test_the_newest_picture_is_seen_when_it_is_added(strip: PictureStrip, qtbot: QtBot) -> None:
    bar = strip.horizontalScrollBar()
    drafts = [DraftPicture(f"{at}.png", picture=picture(at)) for at in range(9)]
    shown(strip, qtbot, drafts)
    qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    # Who looks at another part stays there, also when a picture was looked at or taken out.
    turn_wheel(strip, -3)
    place = bar.value()
    assert place < bar.maximum()
    drafts[8] = replace(drafts[8], picture=picture(80))
    shown(strip, qtbot, drafts)
    assert bar.value() == place
    shown(strip, qtbot, drafts[:8])
    assert bar.value() <= place
    shown(strip, qtbot, [*drafts, DraftPicture("new.png")])
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
