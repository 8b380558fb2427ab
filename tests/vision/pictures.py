"""Pictures made up on the spot."""

from __future__ import annotations

import hashlib
import io
import random
from functools import cache
from pathlib import Path

from PIL import Image

from core.vision.decode import DecodedPicture, PictureDecoder, read_picture

# Four colours of 64 x 64 pixels as pillow-heif 1.4.0 writes them; nothing here can.
HEIC = Path(__file__).with_name("heic")


def noise(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """Random pixels: any slip in order or rounding shows."""
    channels = len(Image.new(mode, (1, 1)).getbands())
    data = random.Random(f"{seed} {width} {height} {mode}").randbytes(width * height * channels)
    return Image.frombytes(mode, (width, height), data)


class Here(DecodedPicture):
    """Pixels of this process as what a decoder holds in its own."""

    def __init__(self, image: Image.Image) -> None:
        self._image = image.convert("RGB")
        self.size = image.size

    def resized(self, width: int, height: int, resample: int) -> bytes:
        return self._image.resize((width, height), Image.Resampling(resample)).tobytes()


def held(image: Image.Image) -> DecodedPicture:
    return Here(image)


@cache
def decoder() -> PictureDecoder:
    return PictureDecoder()


def decoded(path: Path) -> Image.Image:
    """The picture in a file as the helper decodes it."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    with decoder().open(read_picture(path, digest), path.name) as picture:
        return Image.frombytes("RGB", picture.size, picture.resized(*picture.size, 0))


def thumbnail_of(path: Path, longest: int) -> Image.Image:
    """The thumbnail that the helper makes of a file."""
    data = path.read_bytes()
    with decoder().open(data, path.name) as picture:
        return Image.open(io.BytesIO(picture.thumbnail(longest)))
