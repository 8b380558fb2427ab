"""Tasks on pictures: from a file's bytes to upright RGB pixels."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator

import pi_heif
from PIL import AvifImagePlugin, ExifTags, ImageOps
from PIL import Image as Pillow

from core.api.errors import ImageEmptyError, ImageError, ImageTooLargeError, ImageUnreadableError
from core.api.limits import MAX_PICTURE_PIXELS, PICTURE_FORMATS, WHOLE_PICTURE_PIXELS
from core.client.codec import Fields

FORMATS = tuple(each.name for each in PICTURE_FORMATS)
# Pillow's own limit is twice this, and lower by default.
Pillow.MAX_IMAGE_PIXELS = MAX_PICTURE_PIXELS
# Rows of a large picture that are made smaller together; an even number.
STRIP_ROWS = 256
# Of decoders that would start one for each core, which takes address space.
THREADS = 4
AvifImagePlugin.DEFAULT_MAX_THREADS = THREADS
pi_heif.register_heif_opener(
    decode_threads=THREADS, thumbnails=False, depth_images=False, aux_images=False
)


class PictureTasks:
    """One decoded picture at a time."""

    def __init__(self) -> None:
        self._picture: Pillow.Image | None = None

    def open(self, fields: Fields, attached: bytes) -> tuple[Fields, bytes]:
        self._picture = None
        self._picture = decode_image(attached, fields["name"])
        return {"size": self._picture.size}, b""

    def close(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        self._picture = None
        return {}, b""

    def resize(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        size = (fields["width"], fields["height"])
        resized = self._opened().resize(size, Pillow.Resampling(fields["resample"]))
        return {}, resized.tobytes()

    def thumbnail(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        data = io.BytesIO()
        _fitting(self._opened(), fields["longest"], fields["longest"]).save(data, "PNG")
        return {}, data.getvalue()

    def fit(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        fitting = _fitting(self._opened(), fields["width"], fields["height"])
        return {"size": fitting.size}, fitting.convert("RGBA").tobytes()

    def _opened(self) -> Pillow.Image:
        assert self._picture is not None
        return self._picture


def decode_image(data: bytes, name: str) -> Pillow.Image:
    """The first frame: RGB, upright, transparency over white as in transformers.

    Raises ImageUnreadableError, ImageEmptyError; ImageTooLargeError before decoding.
    """
    with _named_errors(name):
        with _open(data) as image:
            _check_size(name, image.size)
            image.verify()
        # A verified one can't be read.
        with _open(data) as image:
            large, size = _is_large(image), image.size
            if large:
                # JPEG is decoded at half its size, other formats whole.
                image.draft(None, (image.width // 2, image.height // 2))
            image.load()
            whole = large and image.size == size
            return _flattened(_upright(_halved(image) if whole else image))


def _fitting(image: Pillow.Image, width: int, height: int) -> Pillow.Image:
    small = image.copy()
    small.thumbnail((width, height), Pillow.Resampling.LANCZOS)
    return small


def _is_large(image: Pillow.Image) -> bool:
    return image.width * image.height > WHOLE_PICTURE_PIXELS


def _halved(image: Pillow.Image) -> Pillow.Image:
    # In strips: a second copy at this size may not fit into memory.
    width, height = image.size
    small = Pillow.new("RGB", ((width + 1) // 2, (height + 1) // 2))
    for top in range(0, height, STRIP_ROWS):
        strip = image.crop((0, top, width, min(height, top + STRIP_ROWS)))
        small.paste(_flattened(strip).reduce(2), (0, top // 2))
    # For its orientation; transparency is gone.
    small.info = {key: each for key, each in image.info.items() if key != "transparency"}
    return small


def _open(data: bytes) -> Pillow.Image:
    return Pillow.open(io.BytesIO(data), formats=FORMATS)


def _check_size(name: str, size: tuple[int, int]) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise ImageEmptyError(f"{name} measures {width} x {height} pixels.")
    if width * height > MAX_PICTURE_PIXELS:
        raise ImageTooLargeError(
            f"{name} has {width} x {height} = {width * height / 1e6:.0f} million pixels; "
            f"the limit is {MAX_PICTURE_PIXELS / 1e6:.0f} million."
        )


def _upright(image: Pillow.Image) -> Pillow.Image:
    """Broken EXIF is ignored."""
    try:
        # An upright one would be copied, which takes half as long as decoding it.
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        return ImageOps.exif_transpose(image) if turned else image
    except Exception:
        return image


def _flattened(image: Pillow.Image) -> Pillow.Image:
    if image.mode.startswith("I;16"):
        return _eight_bits(image)
    if image.mode == "RGBa":
        image = image.convert("RGBA")
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image if image.mode == "RGB" else image.convert("RGB")
    layer = image.convert("RGBA")
    white = Pillow.new("RGBA", layer.size, (255, 255, 255, 255))
    return Pillow.alpha_composite(white, layer).convert("RGB")


def _eight_bits(image: Pillow.Image) -> Pillow.Image:
    """Pillow's own conversion of sixteen-bit grey clips at 255, and scans come out white."""
    return image.convert("I").point(lambda level: level / 257).convert("L").convert("RGB")


@contextlib.contextmanager
def _named_errors(name: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # broken metadata, while the pixels are fine
            yield
    except (ImageError, MemoryError):
        raise
    except Pillow.DecompressionBombError:
        raise ImageTooLargeError(
            f"{name} has far more than {MAX_PICTURE_PIXELS / 1e6:.0f} million pixels, the limit."
        ) from None
    except Exception as error:
        raise ImageUnreadableError(
            f"{name} is damaged, or none of {', '.join(FORMATS)}."
        ) from error
