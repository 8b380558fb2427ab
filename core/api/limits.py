"""Limits and formats of pictures, for the window and the engine."""

from __future__ import annotations

from typing import NamedTuple

MAX_PICTURE_BYTES = 256 * 2**20
MAX_PICTURE_PIXELS = 64_000_000


class PictureFormat(NamedTuple):
    """A format that is decoded: its name, how its files begin, and their suffixes."""

    name: str
    beginnings: tuple[bytes, ...]
    suffixes: tuple[str, ...]


PICTURE_FORMATS = (
    PictureFormat("PNG", (b"\x89PNG",), (".png",)),
    PictureFormat("JPEG", (b"\xff\xd8\xff",), (".jpg", ".jpeg")),
    PictureFormat("WEBP", (b"RIFF",), (".webp",)),
    PictureFormat("GIF", (b"GIF8",), (".gif",)),
    PictureFormat("BMP", (b"BM",), (".bmp",)),
    PictureFormat("TIFF", (b"II*\0", b"MM\0*"), (".tif", ".tiff")),
)
