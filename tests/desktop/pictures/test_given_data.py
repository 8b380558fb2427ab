from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QUrl
from PySide6.QtGui import QImage

from desktop.pictures import given_data
from desktop.pictures.given_data import sort_data
from tests.desktop.bait import Bait
from tests.desktop.fake_engine import png


def image_data(width: int, height: int) -> QMimeData:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(0)
    data = QMimeData()
    data.setImageData(image)
    return data


def form(name: str, content: bytes) -> QMimeData:
    data = QMimeData()
    data.setData(name, content)
    return data


def test_a_file_is_passed_on_and_an_image_in_memory_becomes_one() -> None:
    for kind in ("image/png", "image/heic", "image/avif"):
        given = sort_data(form(kind, b"not even a picture"))
        assert given.read is not None and given.read() == b"not even a picture"
    given = sort_data(image_data(20, 10))
    assert given.read is not None and QImage.fromData(given.read()).width() == 20


def test_a_drawing_is_refused_and_opens_nothing(tmp_path: Path) -> None:
    # Qt has a decoder for it, which opens what it names.
    with Bait(tmp_path / "bait.png", png()) as bait:
        drawing = (
            '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'width="9" height="9"><image width="9" height="9" xlink:href="{bait.path}"/></svg>'
        )
        # Of a drawing on a clipboard, Qt says that it can make an image.
        for others in ((), ("application/x-qt-image",)):
            data = form("image/svg+xml", drawing.encode())
            for other in others:
                data.setData(other, b"")
            given = sort_data(data)
            assert "format" in given.refused and given.read is None
        assert not bait.opened


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_data, "MAX_PICTURE_PIXELS", 199)
    assert sort_data(image_data(20, 10)).refused.endswith("too large.")
    monkeypatch.setattr(given_data, "MAX_PICTURE_BYTES", 99)
    assert sort_data(form("image/png", bytes(100))).refused.endswith("too large.")


def test_an_address_is_refused_and_a_file_is_not(tmp_path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl("https://example.org/cat.png")])
    assert sort_data(data).refused.endswith("Save the picture first.")
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "cat.png"))])
    assert sort_data(data).files == (tmp_path / "cat.png",)
