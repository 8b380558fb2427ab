from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from desktop.item_models.draft import DraftPicture
from desktop.store.records import Picture
from desktop.views.picture_strip import MADE_AT_ONCE, PictureStrip
from tests.desktop.fake_engine import png


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
