"""From RGB pixels to a vision tower's patches: resize, normalise, patchify, and the image's key.

Bit-equal to transformers' Pillow-based Qwen2-VL image processor (`Qwen2VLImageProcessorPil`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from core.api.errors import BrokenConfigError, ImageAspectError, ImageEmptyError
from core.api.prompt import Image
from core.vision.decode import Picture
from core.vision.processor_config import ProcessorConfig, read_processor_config

MAX_ASPECT = 200


@dataclass(frozen=True, slots=True)
class ResizePlan:
    """What a picture becomes: `width` x `height` pixels, `rows` x `columns` = `tokens` tokens."""

    width: int
    height: int
    rows: int
    columns: int

    @property
    def tokens(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True, slots=True)
class Grid:
    """`rows` x `columns` patches that the tower sees at once; `before` are ids of the text before
    their tokens."""

    rows: int
    columns: int
    before: tuple[int, ...] = ()

    @property
    def num_patches(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True)
class ProcessedImage:
    """A picture at a model's size: `data` are its RGB bytes, an eighth of the size of its patches.

    The patches are those of its `grids`, most often one, in the tower's order.
    """

    data: bytes
    grids: tuple[Grid, ...]
    image: Image
    to_patches: Callable[[bytes], Tensor]

    @property
    def pixels(self) -> Tensor:
        """The tower's input, computed on each access: float32 [patches, channels x time x patch x
        patch]."""
        return self.to_patches(self.data)


class ImageProcessor:
    """The processor of Qwen2-VL and its kin."""

    def __init__(self, config: ProcessorConfig) -> None:
        self.config = config
        self._levels = levels(config)
        self._settings = _settings_digest(config)

    @classmethod
    def open(
        cls, folder: Path, config: Mapping[str, Any], max_tokens: int | None
    ) -> ImageProcessor:
        """Read `folder`. `config` is config.json, whose vision part must agree on the patches.

        `max_tokens` lowers what an image may cost, never raises it. Raises MissingFileError,
        BrokenConfigError.
        """
        settings = read_processor_config(folder)
        _check_agreement(folder, settings, config.get("vision_config") or {})
        return cls(settings.with_max_tokens(max_tokens))

    @property
    def max_tokens(self) -> int:
        """Tokens the largest picture may cost."""
        return self.config.max_pixels // self.config.token_size**2

    def measure(self, width: int, height: int) -> ResizePlan:
        """The size a picture of `width` x `height` pixels is given, and the tokens it costs.

        Raises ImageAspectError, ImageEmptyError.
        """
        if min(width, height) < 1:
            raise ImageEmptyError(f"The picture measures {width} x {height} pixels.")
        if max(width, height) / min(width, height) > MAX_ASPECT:
            raise ImageAspectError(
                f"The picture measures {width} x {height} pixels; "
                f"one side may be at most {MAX_ASPECT} times as long as the other."
            )
        unit = self.config.token_size
        new_height, new_width = _smart_size(height, width, self.config)
        return ResizePlan(new_width, new_height, new_height // unit, new_width // unit)

    def process(self, picture: Picture) -> ProcessedImage:
        """Resize a picture and compute its key. Raises ImageError."""
        plan = self.measure(*picture.size)
        data = picture.resized(plan.width, plan.height, self.config.resample)
        merge = self.config.merge_size
        return ProcessedImage(
            data=data,
            grids=(Grid(plan.rows * merge, plan.columns * merge),),
            image=Image(
                key=self._key(data, plan),
                rows=plan.rows,
                columns=plan.columns,
                num_positions=max(plan.rows, plan.columns),
            ),
            to_patches=partial(self._patches, plan),
        )

    def _patches(self, plan: ResizePlan, data: bytes) -> Tensor:
        """RGB bytes [height, width, 3] to patches [patches, 3 x time x patch x patch]."""
        config = self.config
        patch, merge, time = config.patch_size, config.merge_size, config.temporal_patch_size
        rgb = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(plan.height, plan.width, 3)
        channels = [self._levels[channel][rgb[..., channel].int()] for channel in range(3)]
        pixels = torch.stack(channels).view(3, plan.rows, merge, patch, plan.columns, merge, patch)
        # To (token row, token column, row in token, column in token, channel, y, x).
        ordered = pixels.permute(1, 4, 2, 5, 0, 3, 6).unsqueeze(5)
        repeated = ordered.expand(-1, -1, -1, -1, -1, time, -1, -1)
        return repeated.reshape(plan.tokens * merge * merge, 3 * time * patch * patch)

    def _key(self, data: bytes, plan: ResizePlan) -> bytes:
        """256 bits over settings, size and resized bytes, which fix every pixel value."""
        digest = hashlib.blake2b(self._settings, digest_size=32, person=b"waymark image")
        digest.update(plan.width.to_bytes(8, "little") + plan.height.to_bytes(8, "little"))
        digest.update(data)
        return digest.digest()


def _smart_size(height: int, width: int, config: ProcessorConfig) -> tuple[int, int]:
    """Height and width as multiples of a token's edge, near the original, within the pixel limits.

    Python's round (half to even) and the order of operations are those of Qwen's `smart_resize`.
    """
    unit, low, high = config.token_size, config.min_pixels, config.max_pixels
    new_height, new_width = round(height / unit) * unit, round(width / unit) * unit
    if new_height * new_width > high:
        shrink = math.sqrt((height * width) / high)
        new_height = max(unit, math.floor(height / shrink / unit) * unit)
        new_width = max(unit, math.floor(width / shrink / unit) * unit)
    elif new_height * new_width < low:
        grow = math.sqrt(low / (height * width))
        new_height = math.ceil(height * grow / unit) * unit
        new_width = math.ceil(width * grow / unit) * unit
    return new_height, new_width


class LevelSettings(Protocol):
    """How a channel's 256 levels become floats."""

    @property
    def mean(self) -> tuple[float, ...]: ...

    @property
    def std(self) -> tuple[float, ...]: ...

    @property
    def rescale_factor(self) -> float: ...

    @property
    def do_rescale(self) -> bool: ...

    @property
    def do_normalize(self) -> bool: ...


def levels(config: LevelSettings) -> Tensor:
    """The float32 value of each of the 256 levels, by channel [3, 256].

    Rescaled in double precision, rounded to single, normalised in single: the reference's order.
    """
    double = torch.arange(256, dtype=torch.float64)
    if config.do_rescale:
        double = double * config.rescale_factor
    single = double.float().expand(3, -1)
    if not config.do_normalize:
        return single.contiguous()
    mean = torch.tensor(config.mean, dtype=torch.float32).view(3, 1)
    std = torch.tensor(config.std, dtype=torch.float32).view(3, 1)
    return (single - mean) / std


def _settings_digest(config: ProcessorConfig) -> bytes:
    """A digest of the settings that turn bytes into patches; pixel limits only affect the size."""
    shown = (
        config.patch_size,
        config.temporal_patch_size,
        config.merge_size,
        config.mean,
        config.std,
        config.rescale_factor if config.do_rescale else None,
        config.do_normalize,
    )
    return hashlib.blake2b(repr(shown).encode(), digest_size=32).digest()


def _check_agreement(
    folder: Path, settings: ProcessorConfig, vision_config: Mapping[str, Any]
) -> None:
    """Raises BrokenConfigError unless processor and tower have the same patch sizes."""
    pairs = (
        ("patch_size", settings.patch_size),
        ("temporal_patch_size", settings.temporal_patch_size),
        ("spatial_merge_size", settings.merge_size),
    )
    for name, value in pairs:
        expected = vision_config.get(name, value)
        if expected != value:
            raise BrokenConfigError(
                f"{folder.name}: the image processor has {name} {value}, the model {expected}."
            )
