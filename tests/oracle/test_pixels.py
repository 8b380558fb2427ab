"""Patches against transformers' Pillow-based Qwen2-VL image processor, to the bit."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
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

from core.api.errors import BrokenConfigError
from core.models.siglip import in_squares
from core.vision.kinds import ImageProcessor, PatchImageProcessor, open_processor
from tests.vision.pictures import decoded, held, noise

CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
SETTINGS: dict[str, dict[str, Any]] = {
    "qwen3_5": {"patch_size": 16, "size": {"shortest_edge": 4096, "longest_edge": 40_000}, **HALF},
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


# ------------------------------------------------------------------ Nemotron Omni


@pytest.fixture(scope="module")
def omni() -> dict[str, Any]:
    """The functions of transformers' processor, whose module needs torchvision."""
    package = "transformers.models.nemotron_h_omni"
    spec = importlib.util.find_spec(f"{package}.image_processing_nemotron_h_omni")
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    functions: list[ast.stmt] = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    found: dict[str, Any] = {"math": math}
    exec(compile(ast.Module(functions, []), spec.origin, "exec"), found)
    return found


def omni_processor(folder: Path, limit: int | None = None, **settings: Any) -> PatchImageProcessor:
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    found = open_processor(folder, {"model_type": "nemotron_h_omni"}, limit)
    assert isinstance(found, PatchImageProcessor)
    return found


def test_grids_of_patches_equal_the_reference(omni: dict[str, Any], tmp_path: Path) -> None:
    published = omni_processor(tmp_path)
    assert published.max_tokens == 3328
    small = omni_processor(tmp_path, min_num_patches=16, max_num_patches=400)
    for height in range(1, 5000, 61):
        for width in range(1, 5000, 67):
            if max(height, width) > 200 * min(height, width):
                continue
            for ours, limits in ((published, (1024, 13_312)), (small, (16, 400))):
                plan = ours.measure(width, height)
                grid = omni["get_patch_grid_size"](height, width, 16, 2, *limits)
                assert (plan.grids[0].rows, plan.grids[0].columns) == grid
                assert plan.tokens <= ours.max_tokens


@pytest.mark.parametrize("limit", [4, 16, 64, 300])
def test_a_limit_of_patches_is_kept_by_every_shape(tmp_path: Path, limit: int) -> None:
    made = omni_processor(tmp_path, limit)
    for size in ((1, 1), (1, 200), (2000, 10), (4000, 20), (16, 3200), (800, 600), (9000, 9000)):
        assert 1 <= made.measure(*size).tokens <= made.max_tokens == limit


@pytest.mark.parametrize("size", [(64, 96), (50, 70), (200, 40)])
def test_patches_equal_the_reference_between_black_and_white(
    omni: dict[str, Any], tmp_path: Path, size: tuple[int, int]
) -> None:
    """At most 1.5 levels of 256 apart where a picture is resized: the reference doesn't round, nor
    limit what its weights put beyond black and white, which these greys don't reach."""
    settings: dict[str, Any] = {
        "min_num_patches": 16,
        "max_num_patches": 400,
        "norm_mean": [0.5, 0.4, 0.3],
    }
    made = omni_processor(tmp_path, **settings)
    picture = noise(*size).point(lambda level: 64 + level // 2)
    found = made.process(held(picture))
    (grid,) = found.grids
    pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    pixels = pixels.view(1, *picture.size[::-1], 3).permute(0, 3, 1, 2).float()
    wanted = 16 * grid.rows, 16 * grid.columns
    resized = torch.nn.functional.interpolate(pixels, wanted, mode="bicubic", antialias=True)
    mean, std = (
        torch.tensor(each).view(3, 1, 1) for each in (settings["norm_mean"], CLIP["image_std"])
    )
    expected = (resized / 255 - mean) / std
    patches = omni["convert_image_to_patches"](expected, 16)[0]
    same_size = wanted == picture.size[::-1]
    most = 1e-6 if same_size else 1.5 / 255 / 0.26
    assert (found.pixels - in_squares(patches, grid.rows, grid.columns)).abs().max() <= most
    assert same_size == (size == (64, 96))


@pytest.mark.parametrize(
    "settings",
    [
        {"patch_size": 0},
        {"min_num_patches": 0},
        {"max_num_patches": -2},
        {"max_num_patches": 10**9, "max_model_len": 10**9},
        {"max_model_len": "long"},
        {"downsample_ratio": 0.25},
        {"do_resize": False},
    ],
    ids=str,
)
def test_settings_of_patches_that_make_no_sense_are_refused(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    with pytest.raises(BrokenConfigError):
        omni_processor(tmp_path, **settings)
