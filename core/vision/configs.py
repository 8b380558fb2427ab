"""The settings of picture processors, as model folders publish them. A config's repr is in the keys
of saved pictures: keep names, fields and their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from core.api.errors import BrokenConfigError, MissingFileError
from core.model_files import read_object

# The defaults of transformers for keys that a file leaves out.
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
HALF = (0.5, 0.5, 0.5)
MAX_TOKENS = 65_536  # published: 16,384
MAX_TILES = 64  # published: 10
MAX_TILE_SIZE = 2**13

TokenId = Callable[[str], int | None]
"""The id of an added token by its spelling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelConfig:
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rescale_factor: float
    resample: Pillow.Resampling
    do_rescale: bool
    do_normalize: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorConfig(PixelConfig):
    """Qwen2-VL style. `min_pixels` and `max_pixels` bound width x height after resizing."""

    min_pixels: int
    max_pixels: int
    patch_size: int
    temporal_patch_size: int
    merge_size: int

    @property
    def token_size(self) -> int:
        """Pixels along a token's edge."""
        return self.patch_size * self.merge_size

    def with_max_tokens(self, limit: int | None) -> ProcessorConfig:
        """None or 0: the processor's limit."""
        if not limit:
            return self
        most = min(self.max_pixels, limit * self.token_size**2)
        return replace(self, max_pixels=most, min_pixels=min(self.min_pixels, most))


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareConfig(PixelConfig):
    """Gemma 3."""

    size: int
    patch_size: int
    tokens_per_side: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledConfig(PixelConfig):
    """Gemma 4: a picture fills at most `max_tokens` squares of `pooling` x `pooling` patches; in
    the unified model patches are as large as the squares."""

    patch_size: int
    pooling: int
    max_tokens: int

    @property
    def token_size(self) -> int:
        return self.patch_size * self.pooling

    def with_max_tokens(self, limit: int | None) -> PooledConfig:
        return replace(self, max_tokens=min(limit, self.max_tokens)) if limit else self


# ------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True)
class PublishedSettings:
    """null is a missing key."""

    folder: str
    values: Mapping[str, Any]

    def get(self, name: str, default: Any) -> Any:
        found = self.values.get(name)
        return default if found is None else found

    def agree(self, name: str, found: Any, expected: Any) -> None:
        """Raises BrokenConfigError unless processor and model have the same value."""
        if found != expected:
            raise BrokenConfigError(
                f"{self.folder}: the image processor has {name} {found}, the model {expected}."
            )

    def pixels(
        self, mean: tuple[float, ...], std: tuple[float, ...], resample: Pillow.Resampling
    ) -> dict[str, Any]:
        mean = tuple(map(float, self.get("image_mean", mean)))
        std = tuple(map(float, self.get("image_std", std)))
        if (len(mean), len(std)) != (3, 3) or 0 in std:
            raise ValueError("three colours, and deviations above zero")
        if not self.get("do_resize", True):
            raise BrokenConfigError(f"{self.folder}: images that are not resized aren't supported.")
        return {
            "mean": mean,
            "std": std,
            "rescale_factor": float(self.get("rescale_factor", 1 / 255)),
            "resample": Pillow.Resampling(self.get("resample", resample)),
            "do_rescale": bool(self.get("do_rescale", True)),
            "do_normalize": bool(self.get("do_normalize", True)),
        }


# A model folder, or the settings that it would have.
Source = Path | PublishedSettings


def read_processor_config(source: Source, model: Mapping[str, Any]) -> ProcessorConfig:
    """`model`, its config.json, must agree on the patches. All of these raise MissingFileError and
    BrokenConfigError."""
    with published(source) as settings:
        size = settings.get("size", {})
        config = ProcessorConfig(
            min_pixels=int(settings.get("min_pixels", size.get("shortest_edge", 56 * 56))),
            max_pixels=int(settings.get("max_pixels", size.get("longest_edge", 28 * 28 * 1280))),
            patch_size=int(settings.get("patch_size", 14)),
            temporal_patch_size=int(settings.get("temporal_patch_size", 2)),
            merge_size=int(settings.get("merge_size", 2)),
            **settings.pixels(_CLIP_MEAN, _CLIP_STD, Pillow.Resampling.BICUBIC),
        )
        patch, merge, time = config.patch_size, config.merge_size, config.temporal_patch_size
        low, high = config.min_pixels, config.max_pixels
        if min(low, high, patch, merge, time) < 1 or low > high:
            raise ValueError("sizes are above zero, and the least is not above the most")
        if high > MAX_TOKENS * config.token_size**2:
            raise BrokenConfigError(
                f"{settings.folder}: the image processor would make more than {MAX_TOKENS:,} "
                "tokens of a picture."
            )
    vision = model.get("vision_config") or {}
    for name, value in (
        ("patch_size", patch),
        ("temporal_patch_size", time),
        ("spatial_merge_size", merge),
    ):
        settings.agree(name, value, vision.get(name, value))
    return config


def read_patch_config(source: Source, model: Mapping[str, Any]) -> ProcessorConfig:
    """Nemotron Omni's, whose settings count patches."""
    with published(source) as settings:
        patch = int(settings.get("patch_size", 16))
        vision = model.get("vision_config") or {}
        settings.agree("patch_size", patch, vision.get("patch_size", patch))
        settings.agree("downsample_ratio", settings.get("downsample_ratio", 0.5), 0.5)
        low, high = (
            int(settings.get(f"{name}_num_patches", usual))
            for name, usual in (("min", 1024), ("max", 13_312))
        )
        # The context that the reference assumes, without the tokens around a picture.
        most = max(4 * (int(settings.get("max_model_len", 16_384)) - 4), low)
        most = max(min(most, high or most), low)
        if min(patch, low, high + 1) < 1 or most > 4 * MAX_TOKENS:
            raise ValueError("sizes are above zero and not too large")
        means = (
            tuple(settings.get("norm_mean", _CLIP_MEAN)),
            tuple(settings.get("norm_std", _CLIP_STD)),
        )
        return ProcessorConfig(
            min_pixels=low * patch**2,
            max_pixels=most * patch**2,
            patch_size=patch,
            temporal_patch_size=1,
            merge_size=2,
            **settings.pixels(*means, Pillow.Resampling.BICUBIC),
        )


def read_square_config(source: Source, model: Mapping[str, Any]) -> SquareConfig:
    with published(source) as settings:
        vision = model.get("vision_config") or {}
        size, patch = int(vision.get("image_size", 224)), int(vision.get("patch_size", 16))
        tokens = int(model.get("mm_tokens_per_image") or 256)
        square = settings.get("size", {"height": size, "width": size})
        settings.agree("height", square.get("height"), size)
        settings.agree("width", square.get("width"), size)
        settings.agree("image_seq_length", settings.get("image_seq_length", tokens), tokens)
        if min(size, patch, tokens) < 1:
            raise ValueError("sizes are above zero")
        if settings.get("do_pan_and_scan", False):
            raise BrokenConfigError(
                f"{settings.folder}: cutting long pictures into crops (pan and scan) is not "
                "supported."
            )
        pixels = settings.pixels(HALF, HALF, Pillow.Resampling.BILINEAR)
        side = math.isqrt(tokens)
        return SquareConfig(size=size, patch_size=patch, tokens_per_side=side, **pixels)


def read_pooled_config(source: Source, model: Mapping[str, Any]) -> PooledConfig:
    with published(source) as settings:
        patch = int(settings.get("patch_size", 16))
        pooling = int(settings.get("pooling_kernel_size", 3))
        most = int(settings.get("max_soft_tokens", 280))
        if min(patch, pooling, most) < 1:
            raise ValueError("sizes are above zero")
        vision = model.get("vision_config") or {}
        settings.agree("patch_size", patch, vision.get("patch_size", patch))
        name = "pooling_kernel_size"
        settings.agree(name, pooling, vision.get(name, pooling))
        places = vision.get("position_embedding_size", 10_240)
        if model.get("model_type") == "gemma4_unified":
            patch, pooling, places = patch * pooling, 1, vision.get("mm_posemb_size", 1120)
        if most > MAX_TOKENS or most * pooling > places:
            raise BrokenConfigError(
                f"{settings.folder}: the image processor would make {most:,} tokens of a picture, "
                "which the model has no positions for."
            )
        zeros, ones = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        pixels = settings.pixels(zeros, ones, Pillow.Resampling.BICUBIC)
        return PooledConfig(patch_size=patch, pooling=pooling, max_tokens=most, **pixels)


@contextmanager
def published(source: Source) -> Iterator[PublishedSettings]:
    settings = source
    if not isinstance(settings, PublishedSettings):
        settings = PublishedSettings(settings.name, _read(settings))
    try:
        yield settings
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise BrokenConfigError(
            f"{settings.folder}: the image processor's settings make no sense."
        ) from error


def _read(folder: Path) -> Mapping[str, Any]:
    for name, key in (
        ("preprocessor_config.json", None),
        ("processor_config.json", "image_processor"),
    ):
        if (folder / name).is_file():
            found = read_object(folder / name, BrokenConfigError)
            settings = found if key is None else found.get(key)
            if isinstance(settings, dict):
                return settings
    raise MissingFileError(
        f"{folder.name} has no preprocessor_config.json, so it can't see pictures."
    )


def mark_of(spelling: str, token_id: TokenId) -> int:
    found = token_id(spelling)
    if found is None:
        raise BrokenConfigError(
            f"The tokenizer lacks {spelling!r}, which tells a picture's tiles apart."
        )
    return found
