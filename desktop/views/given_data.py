"""What was dropped or pasted, sorted: picture files, picture bytes, text, or none of these.

A web address stays an address: nothing here or below ever fetches one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMimeData
from PySide6.QtGui import QImage, QImageWriter

# The forms in which another program may hand over a picture as it is, best first.
RAW_FORMS = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")
ADDRESS_REFUSED = (
    "Not taken: that is a web address, and Waymark never fetches one. Save the picture first."
)


@dataclass(frozen=True, slots=True)
class GivenData:
    """`read` gives the bytes of a pasted picture and may be slow; `refused` is words, or ''."""

    files: tuple[Path, ...] = ()
    read: Callable[[], bytes] | None = None
    text: str = ""
    refused: str = ""


def sort_data(data: QMimeData) -> GivenData:
    """What can be done with dropped or pasted data."""
    files = tuple(Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile())
    if files:
        return GivenData(files=files)
    for form in RAW_FORMS:
        if data.hasFormat(form):
            return GivenData(read=partial(bytes, data.data(form).data()))
    if data.hasImage():
        image = data.imageData()
        if isinstance(image, QImage) and not image.isNull():
            return GivenData(read=partial(png_bytes, image))
    if data.hasUrls() and data.urls():
        return GivenData(refused=ADDRESS_REFUSED)
    return GivenData(text=data.text())


def png_bytes(image: QImage) -> bytes:
    """A picture from the clipboard as a file's bytes."""
    array = QByteArray()
    buffer = QBuffer(array)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    return bytes(array.data())
