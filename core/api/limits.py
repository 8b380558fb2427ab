"""Limits of pictures, documents and replies, and the formats of pictures, for the window and the
engine."""

from __future__ import annotations

from typing import NamedTuple

MAX_PICTURE_BYTES = 256 * 2**20
MAX_PICTURE_PIXELS = 64_000_000

MAX_DOCUMENT_BYTES = 256 * 2**20
# The longest context holds about a million tokens of four characters.
MAX_DOCUMENT_CHARACTERS = 4_000_000
MAX_DOCUMENT_PAGES = 5_000


class PictureFormat(NamedTuple):
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
