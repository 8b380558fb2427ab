"""From a picture file to upright RGB pixels, with every limit checked before memory is spent.

Knows file formats and their traps (bombs, truncation, orientation, transparency) through Pillow.
Sizes and patches for a model are `processor.py`'s business.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from PIL import Image as Pillow
from PIL import ImageOps

from core.api.errors import ImageEmptyError, ImageError, ImageTooLargeError, ImageUnreadableError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
MAX_PIXELS = 64_000_000

_T = TypeVar("_T")


def decode_image(path: Path) -> Pillow.Image:
    """The first frame of a picture: mode RGB, turned upright, transparency laid on white.

    Flattened as transformers' image processors do it. Raises ImageUnreadableError,
    ImageEmptyError, ImageTooLargeError (more than MAX_PIXELS, found out before decoding).
    """
    _guarded(path, lambda: _check_file(path))
    _guarded(path, lambda: _verify(path))
    return _guarded(path, lambda: _decode(path))


def thumbnail(image: Pillow.Image, longest: int) -> bytes:
    """A PNG of `image` whose longest edge has at most `longest` pixels; nothing is enlarged."""
    small = image.copy()
    small.thumbnail((longest, longest), Pillow.Resampling.LANCZOS)
    data = io.BytesIO()
    small.save(data, "PNG")
    return data.getvalue()


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise ImageUnreadableError(f"{path.name} is not there any more, or is no file.")
    if path.stat().st_size == 0:
        raise ImageEmptyError(f"{path.name} is an empty file.")


def _verify(path: Path) -> None:
    """Look at the header and the file's checksums. Pillow wants it reopened after that."""
    with _opened(path) as image:
        _check_size(path, image.size)
        image.verify()


def _decode(path: Path) -> Pillow.Image:
    with _opened(path) as image:
        _check_size(path, image.size)
        image.load()
        return _flattened(_upright(image))


def _opened(path: Path) -> Pillow.Image:
    """Open without decoding. Our own limit is lower than the one Pillow warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Pillow.DecompressionBombWarning)
        return Pillow.open(path, formats=FORMATS)


def _check_size(path: Path, size: tuple[int, int]) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise ImageEmptyError(f"{path.name} measures {width} x {height} pixels.")
    if width * height > MAX_PIXELS:
        raise ImageTooLargeError(
            f"{path.name} has {width} x {height} = {width * height / 1e6:.0f} million pixels; "
            f"the limit is {MAX_PIXELS / 1e6:.0f} million."
        )


def _upright(image: Pillow.Image) -> Pillow.Image:
    """Turn as the camera noted; a note that can't be read is no reason to refuse the picture."""
    try:
        return ImageOps.exif_transpose(image)
    except Exception:
        return image


def _flattened(image: Pillow.Image) -> Pillow.Image:
    """RGB, with transparent parts over white."""
    if image.mode.startswith("I;16"):
        return _eight_bits(image)
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    white = Pillow.new("RGBA", layer.size, (255, 255, 255, 255))
    return Pillow.alpha_composite(white, layer).convert("RGB")


def _eight_bits(image: Pillow.Image) -> Pillow.Image:
    """Sixteen-bit greys as RGB. Pillow's own conversion cuts off at 255, which is nearly black, and
    makes a scan or an X-ray a white page."""
    return image.convert("I").point(lambda level: level / 257).convert("L").convert("RGB")


def _guarded(path: Path, work: Callable[[], _T]) -> _T:
    """Whatever a decoder raises becomes an error that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # broken metadata is warned of, and the pixels are fine
            return work()
    except ImageError:
        raise
    except Pillow.DecompressionBombError:
        raise ImageTooLargeError(
            f"{path.name} has far more pixels than the {MAX_PIXELS / 1e6:.0f} million allowed."
        ) from None
    except MemoryError:
        raise ImageTooLargeError(f"There is not enough memory to open {path.name}.") from None
    except Exception as error:
        raise ImageUnreadableError(
            f"{path.name} is damaged, or none of {', '.join(FORMATS)}."
        ) from error
