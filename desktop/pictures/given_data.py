"""What was dropped or pasted, sorted: picture files, picture bytes, text, or none of these.

A web address stays an address: nothing here or below ever fetches one. Nor is a picture decoded
here: another program's file goes on as it is, to the engine's process, and only what the system
holds decoded already is taken as an image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMimeData
from PySide6.QtGui import QImage, QImageWriter

from desktop.words.pictures import ADDRESS_REFUSED, FORM_REFUSED, SIZE_REFUSED

# The forms in which another program may hand over a picture as it is, best first.
RAW_FORMS = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")
# How Qt names what it can make an image of: what is one in memory, or else in any form that it has
# a decoder for, of which one reads drawings that name files.
DECODED_FORM = "application/x-qt-image"
# As much as the engine takes.
MOST_PIXELS = 64_000_000
MOST_BYTES = 256 * 2**20


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
            array = data.data(form)
            if array.size() > MOST_BYTES:
                return GivenData(refused=SIZE_REFUSED)
            return GivenData(read=partial(bytes, array.data()))
    strange = any(form.startswith("image/") for form in data.formats())
    if data.hasFormat(DECODED_FORM) and not strange:
        image = data.imageData()
        if isinstance(image, QImage) and not image.isNull():
            if image.width() * image.height() > MOST_PIXELS:
                return GivenData(refused=SIZE_REFUSED)
            return GivenData(read=partial(png_bytes, image))
    if data.hasImage() or (strange and not data.hasText()):
        return GivenData(refused=FORM_REFUSED)
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
