"""The settings of a Qwen2-VL style image processor, as published in preprocessor_config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from core.api.errors import BrokenConfigError, MissingFileError
from core.model_files import read_object

# What transformers' Qwen2VLImageProcessor uses for a key the file leaves out.
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
# Published models make up to 16,384 of one.
MAX_TOKENS = 65_536
_BICUBIC = Pillow.Resampling.BICUBIC


@dataclass(frozen=True, slots=True)
class ProcessorConfig:
    """Sizes are in pixels; `min_pixels` and `max_pixels` bound width x height after resizing."""

    min_pixels: int
    max_pixels: int
    patch_size: int
    temporal_patch_size: int
    merge_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rescale_factor: float
    resample: Pillow.Resampling
    do_rescale: bool
    do_normalize: bool

    @property
    def token_size(self) -> int:
        """Edge in pixels of the square that becomes one token."""
        return self.patch_size * self.merge_size

    def with_max_tokens(self, max_tokens: int | None) -> ProcessorConfig:
        """The same with at most `max_tokens` an image; None or 0 means the processor's limit."""
        if not max_tokens:
            return self
        values = {name: getattr(self, name) for name in self.__slots__}
        values["max_pixels"] = min(self.max_pixels, max_tokens * self.token_size**2)
        values["min_pixels"] = min(self.min_pixels, values["max_pixels"])
        return ProcessorConfig(**values)


def read_processor_config(folder: Path) -> ProcessorConfig:
    """Read preprocessor_config.json, or processor_config.json's image_processor.

    Raises MissingFileError when there is neither, BrokenConfigError when one makes no sense.
    """
    settings = read_settings(folder)
    try:
        config = _from_settings(settings)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise BrokenConfigError(
            f"{folder.name}: the image processor's settings make no sense."
        ) from error
    sizes = (config.min_pixels, config.max_pixels, config.patch_size, config.merge_size)
    channels = (len(config.mean), len(config.std))
    if min(sizes) < 1 or config.temporal_patch_size < 1 or channels != (3, 3) or 0 in config.std:
        raise BrokenConfigError(f"{folder.name}: the image processor's settings make no sense.")
    if config.min_pixels > config.max_pixels:
        raise BrokenConfigError(f"{folder.name}: the image processor's settings make no sense.")
    if config.max_pixels > MAX_TOKENS * config.token_size**2:
        raise BrokenConfigError(
            f"{folder.name}: the image processor would make more than {MAX_TOKENS:,} tokens of a "
            "picture."
        )
    if not settings.get("do_resize", True):
        raise BrokenConfigError(f"{folder.name}: images that are not resized are not supported.")
    return config


def _from_settings(settings: Mapping[str, Any]) -> ProcessorConfig:
    def value(name: str, default: Any) -> Any:
        found = settings.get(name)
        return default if found is None else found

    size = value("size", {})
    return ProcessorConfig(
        min_pixels=int(value("min_pixels", size.get("shortest_edge", 56 * 56))),
        max_pixels=int(value("max_pixels", size.get("longest_edge", 28 * 28 * 1280))),
        patch_size=int(value("patch_size", 14)),
        temporal_patch_size=int(value("temporal_patch_size", 2)),
        merge_size=int(value("merge_size", 2)),
        mean=tuple(map(float, value("image_mean", _CLIP_MEAN))),
        std=tuple(map(float, value("image_std", _CLIP_STD))),
        rescale_factor=float(value("rescale_factor", 1 / 255)),
        resample=Pillow.Resampling(value("resample", _BICUBIC)),
        do_rescale=bool(value("do_rescale", True)),
        do_normalize=bool(value("do_normalize", True)),
    )


def read_settings(folder: Path) -> Mapping[str, Any]:
    """The settings of either file as JSON. Raises MissingFileError, BrokenConfigError."""
    for name, key in (
        ("preprocessor_config.json", None),
        ("processor_config.json", "image_processor"),
    ):
        path = folder / name
        if not path.is_file():
            continue
        found = read_object(path, BrokenConfigError)
        settings = found if key is None else found.get(key)
        if isinstance(settings, dict):
            return settings
    raise MissingFileError(
        f"{folder.name} has no preprocessor_config.json, so it can't see pictures."
    )
