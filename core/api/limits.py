"""Limits of pictures, documents and replies, and the formats of pictures."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_PICTURE_BYTES = 256 * 2**20
MAX_PICTURE_PIXELS = 256_000_000
# Larger pictures are decoded to half their width and height.
WHOLE_PICTURE_PIXELS = 64_000_000

MAX_DOCUMENT_BYTES = 256 * 2**20
# The longest context holds about a million tokens of four characters.
MAX_DOCUMENT_CHARACTERS = 4_000_000
MAX_DOCUMENT_PAGES = 5_000


class PictureFormat(NamedTuple):
    """`name` is Pillow's."""

    name: str
    beginning: re.Pattern[bytes]
    suffixes: tuple[str, ...]


PICTURE_FORMATS = (
    PictureFormat("PNG", re.compile(rb"\x89PNG"), (".png",)),
    PictureFormat("JPEG", re.compile(rb"\xff\xd8\xff"), (".jpg", ".jpeg")),
    PictureFormat("WEBP", re.compile(rb"RIFF"), (".webp",)),
    PictureFormat("GIF", re.compile(rb"GIF8"), (".gif",)),
    PictureFormat("BMP", re.compile(rb"BM"), (".bmp",)),
    PictureFormat("TIFF", re.compile(rb"II\*\0|MM\0\*"), (".tif", ".tiff")),
    # One container with a brand of its own, or a common one before those it is compatible with.
    PictureFormat(
        "AVIF", re.compile(rb"(?s)....ftyp(avi[fs]|m[is]f1.{4}(.{4})*?avi[fs])"), (".avif",)
    ),
    PictureFormat(
        "HEIF", re.compile(rb"(?s)....ftyp(hei[cmsx]|hev[cmsx]|m[is]f1)"), (".heic", ".heif")
    ),
)
# Bytes of a file that tell its format.
PICTURE_BEGINNING = 64


def picture_format(data: bytes) -> PictureFormat | None:
    """A file's format by its first bytes; None if it isn't a picture."""
    return next(
        (each for each in PICTURE_FORMATS if each.beginning.match(data, 0, PICTURE_BEGINNING)), None
    )


# Default limits of a reply, where the user sets none.
# A context of 262,144 tokens holds a megabyte of English. Everything sent of a reply of this size
# fits into one frame, even if JSON spells each character in six.
LONGEST_REPLY_BYTES = 4 * 2**20
# Tokens of an answer in a given format, which a small model may never end, and of a thought.
FORMAT_TOKENS = 2_048
THOUGHT_TOKENS = 16_384
# A formatted reply or a thought ends when its last tokens are one sequence of at most LOOP_PERIOD
# tokens repeated LOOP_TIMES times, LOOP_TOKENS at least. Equal rows of a table repeat less often,
# and the user can continue a longer repetition.
LOOP_PERIOD = 256
LOOP_TIMES = 16
LOOP_TOKENS = 1_024
