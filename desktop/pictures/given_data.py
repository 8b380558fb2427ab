"""Dropped or pasted data.

Web addresses are never fetched and pictures never decoded here: other programs' files are passed
on, and only an image that the system holds decoded is taken as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMimeData, Qt
from PySide6.QtGui import QDropEvent, QImage, QImageWriter

from core.api.limits import MAX_PICTURE_BYTES, MAX_PICTURE_PIXELS, PICTURE_FORMATS
from desktop.i18n import tr

# Files that another program may hand over, best first.
FILE_TYPES = tuple(
    f"image/{suffix.removeprefix('.')}" for each in PICTURE_FORMATS for suffix in each.suffixes
)
# Qt's name for an image it has in memory or can decode, some of them drawings that name files.
DECODED_TYPE = "application/x-qt-image"


@dataclass(frozen=True, slots=True)
class GivenData:
    """`read` returns a pasted picture and may be slow; `refused` is why not."""

    files: tuple[Path, ...] = ()
    read: Callable[[], bytes] | None = None
    text: str = ""
    refused: str = ""


def sort_data(data: QMimeData) -> GivenData:
    files = tuple(Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile())
    if files:
        return GivenData(files=files)
    too_large = tr("Not added: that picture is too large.")
    for kind in FILE_TYPES:
        if data.hasFormat(kind):
            array = data.data(kind)
            if array.size() > MAX_PICTURE_BYTES:
                return GivenData(refused=too_large)
            return GivenData(read=partial(bytes, array.data()))
    unknown = any(kind.startswith("image/") for kind in data.formats())
    if data.hasFormat(DECODED_TYPE) and not unknown:
        image = data.imageData()
        if isinstance(image, QImage) and not image.isNull():
            if image.width() * image.height() > MAX_PICTURE_PIXELS:
                return GivenData(refused=too_large)
            return GivenData(read=partial(png_bytes, image))
    if data.hasImage() or (unknown and not data.hasText()):
        return GivenData(refused=tr("Not added: Waymark can't read that picture format."))
    if data.hasUrls() and data.urls():
        return GivenData(
            refused=tr(
                "Not added: that is a web address, and Waymark never fetches one. Save the picture "
                "first."
            )
        )
    return GivenData(text=data.text())


def has_files(data: QMimeData) -> bool:
    """A copied web address is text."""
    # Pictures copied by this process have an encoded form only.
    pictured = data.hasImage() or any(map(data.hasFormat, FILE_TYPES))
    return pictured or any(url.isLocalFile() for url in data.urls())


def png_bytes(image: QImage) -> bytes:
    array = QByteArray()
    buffer = QBuffer(array)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    return bytes(array.data())


def may_take(event: QDropEvent) -> bool:
    data = event.mimeData()
    if not (data.hasUrls() or data.hasImage() or data.hasText()):
        return False
    accept_copy(event)
    return True


def accept_copy(event: QDropEvent) -> None:
    """After Move the source would delete its file."""
    event.setDropAction(Qt.DropAction.CopyAction)
    event.accept()
