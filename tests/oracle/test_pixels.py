"""Patches against transformers' Pillow-based Qwen2-VL image processor, to the bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
    Qwen2VLImageProcessorPil,
    smart_resize,
)

from core.vision.kinds import ImageProcessor, open_processor
from tests.vision.pictures import decoded, held, noise

CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
SETTINGS: dict[str, dict[str, Any]] = {
    "qwen3_5": {
        "patch_size": 16,
        "size": {"shortest_edge": 4096, "longest_edge": 40_000},
        **HALF,
    },
    "qwen2_vl": {"patch_size": 14, "min_pixels": 3136, "max_pixels": 50_176, **CLIP},
    "defaults": {},
    "small": {"patch_size": 4, "merge_size": 3, "temporal_patch_size": 1, "min_pixels": 1, **CLIP},
    "raw": {"do_rescale": False, "max_pixels": 20_000, "resample": 2},
    "unit": {"do_normalize": False, "rescale_factor": 1 / 128, "max_pixels": 20_000},
}

Pair = tuple[ImageProcessor, Any]


@pytest.fixture(scope="module")
def pair_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """Our processor and the reference with the same settings."""
    pairs: dict[str, Pair] = {}

    def make(name: str) -> Pair:
        if name not in pairs:
            folder = tmp_path_factory.mktemp(name)
            (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS[name]))
            ours = open_processor(folder, {}, None)
            assert isinstance(ours, ImageProcessor)
            pairs[name] = ours, Qwen2VLImageProcessorPil(**SETTINGS[name])
        return pairs[name]

    return make


def assert_equal(pair: Pair, image: Image.Image, upright: Image.Image | None = None) -> None:
    """Ours on the decoded picture, the reference on whatever a user of it would pass."""
    ours, reference = pair
    expected = reference(images=[image], return_tensors="pt")
    found = ours.process(held(upright or image))
    (grid,) = found.grids
    assert expected["image_grid_thw"].tolist() == [[1, grid.rows, grid.columns]]
    assert torch.equal(found.pixels, expected["pixel_values"])


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    "size",
    [(64, 64), (33, 47), (1, 1), (200, 1), (1, 150), (16, 240), (301, 199), (97, 350), (48, 80)],
)
def test_pixels_equal_the_reference(
    pair_of: Callable[[str], Pair], name: str, size: tuple[int, int]
) -> None:
    assert_equal(pair_of(name), noise(*size))


@given(st.sampled_from(["qwen3_5", "qwen2_vl"]), st.integers(1, 260), st.integers(1, 260))
def test_pixels_of_any_size_equal_the_reference(
    pair_of: Callable[[str], Pair], name: str, width: int, height: int
) -> None:
    assume(max(width, height) <= 200 * min(width, height))
    assert_equal(pair_of(name), noise(width, height))


@given(
    st.integers(1, 20_000),
    st.integers(1, 20_000),
    st.integers(1, 64),
    st.integers(1, 10**6),
    st.integers(1, 10**7),
)
def test_sizes_equal_the_reference(
    pair_of: Callable[[str], Pair], width: int, height: int, unit: int, low: int, extra: int
) -> None:
    assume(max(width, height) <= 200 * min(width, height))
    config = pair_of("qwen3_5")[0].config
    most = low + extra
    other = replace(config, patch_size=unit, merge_size=2, min_pixels=low, max_pixels=most)
    plan = ImageProcessor(other).measure(width, height)
    assert (plan.height, plan.width) == smart_resize(height, width, 2 * unit, low, most)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_files_of_every_kind_equal_the_reference(
    pair_of: Callable[[str], Pair], tmp_path: Path, mode: str
) -> None:
    image = noise(90, 70, mode if mode in {"LA", "RGBA", "CMYK"} else "RGB").convert(mode)
    path = tmp_path / "a.tiff"
    image.save(path)
    assert_equal(pair_of("qwen3_5"), Image.open(path), decoded(path))


def test_a_transparent_palette_equals_the_reference(
    pair_of: Callable[[str], Pair], tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    noise(90, 70).quantize(16).save(path, transparency=3)
    assert_equal(pair_of("qwen3_5"), Image.open(path), decoded(path))


@pytest.mark.parametrize("turn", range(1, 9))
def test_turned_photographs_equal_the_reference(
    pair_of: Callable[[str], Pair], tmp_path: Path, turn: int
) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    path = tmp_path / "a.jpg"
    noise(90, 50).save(path, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(path))
    assert_equal(pair_of("qwen3_5"), upright, decoded(path))
