"""From RGB pixels to a vision tower's patches: what the picture processors share."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.api.errors import ImageAspectError, ImageEmptyError
from core.api.prompt import Image
from core.vision.configs import PixelConfig
from core.vision.decode import DecodedPicture

MAX_ASPECT = 200


@dataclass(frozen=True, slots=True)
class Grid:
    """Patches that the tower sees at once; `before` and `after` are ids of the text around their
    tokens."""

    rows: int
    columns: int
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def num_patches(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True, slots=True)
class ResizePlan:
    """`width` x `height` pixels become `rows` x `columns` tokens. The picture is resized to each of
    `sizes`; `key` has all that the patches depend on besides the resulting bytes and the settings.
    `canvas` and `kept_ids` are those of Image."""

    width: int
    height: int
    rows: int
    columns: int
    grids: tuple[Grid, ...]
    to_patches: Callable[[bytes], Tensor]
    sizes: tuple[tuple[int, int], ...]
    key: bytes
    in_line: bool = True
    canvas: tuple[tuple[int, int], ...] = ()
    kept_ids: frozenset[int] = frozenset()

    @property
    def tokens(self) -> int:
        return self.rows * self.columns

    @property
    def num_positions(self) -> int:
        if self.canvas:
            return 1 + max(map(max, self.canvas))
        return self.tokens if self.in_line else max(self.rows, self.columns)


@dataclass(frozen=True)
class ProcessedImage:
    """`data` are RGB bytes at a model's size, an eighth of the size of the patches."""

    data: bytes
    grids: tuple[Grid, ...]
    image: Image
    to_patches: Callable[[bytes], Tensor]

    @property
    def pixels(self) -> Tensor:
        """Computed on each access: float32 [patches, numbers of a patch]."""
        return self.to_patches(self.data)


class PictureProcessor(ABC):
    """The repr of `config` has all that the patches depend on."""

    config: PixelConfig

    def __init__(self, config: PixelConfig) -> None:
        self.config = config
        self._levels = _levels(config)
        shown = self._settings_of_key().encode()
        self._settings = hashlib.blake2b(shown, digest_size=32).digest()

    @property
    @abstractmethod
    def max_tokens(self) -> int:
        """Tokens the largest picture may cost."""

    @abstractmethod
    def measure(self, width: int, height: int) -> ResizePlan:
        """Raises ImageError."""

    def process(self, picture: DecodedPicture) -> ProcessedImage:
        """Raises ImageError."""
        plan = self.measure(*picture.size)
        data = b"".join(picture.resized(*size, self.config.resample) for size in plan.sizes)
        image = Image(
            key=self._key(plan.key, data),
            rows=plan.rows,
            columns=plan.columns,
            num_positions=plan.num_positions,
            in_line=plan.in_line,
            canvas=plan.canvas,
            kept_ids=plan.kept_ids,
        )
        return ProcessedImage(data, plan.grids, image, plan.to_patches)

    def _settings_of_key(self) -> str:
        return repr(self.config)

    def _key(self, size: bytes, data: bytes) -> bytes:
        """256 bits over settings, size and resized bytes, which fix every pixel value."""
        digest = hashlib.blake2b(self._settings, digest_size=32, person=b"waymark image")
        digest.update(size)
        digest.update(data)
        return digest.digest()

    def _patches_of(self, data: bytes, patch: int, *parts: tuple[int, int, int, int]) -> Tensor:
        """Patches [patches, patch x patch x 3] of consecutive pictures, row by row: each has (rows,
        columns) tiles of (height, width) pixels, tile by tile."""
        found, pixels = [], pixels_of(data).split([math.prod(part) for part in parts])
        for rgb, (rows, columns, height, width) in zip(pixels, parts, strict=True):
            split = (rows, height // patch, patch, columns, width // patch, patch, 3)
            tiles = self._floats(rgb, -1).view(split).permute(0, 3, 1, 4, 2, 5, 6)
            found.append(tiles.reshape(-1, 3 * patch * patch))
        return found[0] if len(found) == 1 else torch.cat(found)

    def _floats(self, rgb: Tensor, dim: int) -> Tensor:
        channels = [self._levels[channel][rgb[..., channel].int()] for channel in range(3)]
        return torch.stack(channels, dim)


def pixels_of(data: bytes) -> Tensor:
    """RGB bytes as uint8 [pixels, 3]."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, 3)


def _levels(config: PixelConfig) -> Tensor:
    """Float32 values of the 256 levels by channel, [3, 256]. Rescaled in double precision, rounded,
    normalised in single: the reference's order."""
    double = torch.arange(256, dtype=torch.float64)
    if config.do_rescale:
        double = double * config.rescale_factor
    single = double.float().expand(3, -1)
    if not config.do_normalize:
        return single.contiguous()
    mean = torch.tensor(config.mean, dtype=torch.float32).view(3, 1)
    std = torch.tensor(config.std, dtype=torch.float32).view(3, 1)
    return (single - mean) / std


def check_size(width: int, height: int, most_aspect: float = MAX_ASPECT) -> None:
    if min(width, height) < 1:
        raise ImageEmptyError(f"The picture measures {width} x {height} pixels.")
    if max(width, height) / min(width, height) > most_aspect:
        raise ImageAspectError(
            f"The picture measures {width} x {height} pixels; "
            f"one side may be at most {MAX_ASPECT} times as long as the other."
        )


def smart_size(
    height: int, width: int, unit: int, pixels: tuple[int, int], least: int = 0
) -> tuple[int, int]:
    """Height and width as multiples of `unit`, at least `least`, near the original and within the
    limits of `pixels`. Rounding and the order of operations are those of Qwen's `smart_resize`."""
    low, high = pixels
    new_height, new_width = (max(least, round(each / unit) * unit) for each in (height, width))
    if new_height * new_width > high:
        return shrunk(height, width, unit, high)
    if new_height * new_width < low:
        grow = math.sqrt(low / (height * width))
        new_height = math.ceil(height * grow / unit) * unit
        new_width = math.ceil(width * grow / unit) * unit
    return new_height, new_width


def shrunk(height: int, width: int, unit: int, most: int) -> tuple[int, int]:
    """`smart_size` of a picture of more than `most` pixels, which narrow ones still exceed."""
    shrink = math.sqrt((height * width) / most)
    new_height = max(unit, math.floor(height / shrink / unit) * unit)
    return new_height, max(unit, math.floor(width / shrink / unit) * unit)
