"""Sizes, tokens and names of pictures. The pixels themselves: tests/oracle/test_pixels.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from core.api.errors import BrokenConfigError, ImageAspectError, ImageEmptyError, MissingFileError
from core.vision.processor import Grid, ImageProcessor
from tests.vision.pictures import decoded, held, noise

SETTINGS: dict[str, Any] = {
    "size": {"shortest_edge": 4096, "longest_edge": 65536},
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
sides = st.integers(1, 700)


def processor(folder: Path, max_tokens: int | None = None, **changes: Any) -> ImageProcessor:
    settings = {**SETTINGS, **changes}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return ImageProcessor.open(folder, {}, max_tokens)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ImageProcessor:
    return processor(tmp_path_factory.mktemp("processor"))


@given(sides, sides)
def test_a_plan_counts_whole_tokens(plain: ImageProcessor, width: int, height: int) -> None:
    assume(max(width, height) <= 200 * min(width, height))
    plan = plain.measure(width, height)
    assert (plan.width, plan.height) == (plan.columns * 32, plan.rows * 32)
    assert plan.tokens == plan.rows * plan.columns >= 1


@given(st.integers(1, 120), st.integers(1, 120))
def test_what_is_measured_is_what_is_processed(
    plain: ImageProcessor, width: int, height: int
) -> None:
    plan, done = plain.measure(width, height), plain.process(held(noise(width, height)))
    assert (done.image.rows, done.image.columns) == (plan.rows, plan.columns)
    assert done.grids == (Grid(2 * plan.rows, 2 * plan.columns),)
    assert done.pixels.shape == (4 * plan.tokens, 3 * 2 * 16 * 16)
    assert done.pixels.dtype == torch.float32
    assert done.pixels.is_contiguous()


def test_I7_a_picture_advances_the_position_by_its_longer_side(plain: ImageProcessor) -> None:
    wide = plain.process(held(noise(256, 64))).image
    assert (wide.rows, wide.columns, wide.num_tokens, wide.num_positions) == (2, 8, 16, 8)
    tall = plain.process(held(noise(64, 256))).image
    assert (tall.rows, tall.columns, tall.num_positions) == (8, 2, 8)


def test_halves_are_rounded_to_even(plain: ImageProcessor) -> None:
    assert (plain.measure(80, 112).columns, plain.measure(80, 112).rows) == (2, 4)


def test_too_long_and_thin_is_refused_with_its_numbers(plain: ImageProcessor) -> None:
    assert plain.measure(200, 1).tokens > 0
    for size in ((201, 1), (1, 201), (4001, 20)):
        with pytest.raises(ImageAspectError, match=f"{size[0]} x {size[1]}"):
            plain.measure(*size)
    with pytest.raises(ImageEmptyError):
        plain.measure(0, 10)


@given(st.integers(64, 700), st.integers(64, 700), st.integers(4, 200))
def test_max_tokens_lowers_what_a_picture_may_cost_and_never_raises_it(
    plain: ImageProcessor, width: int, height: int, most: int
) -> None:
    """For shapes no side of which would shrink below one token."""
    assume(max(width, height) <= 4 * min(width, height))
    capped = ImageProcessor(plain.config.with_max_tokens(most))
    assert capped.config.min_pixels <= capped.config.max_pixels == min(65536, most * 1024)
    tokens = capped.measure(width, height).tokens
    assert tokens <= min(most, plain.measure(width, height).tokens)


@pytest.mark.parametrize("none", [None, 0])
def test_without_max_tokens_the_processors_own_limit_holds(
    plain: ImageProcessor, none: int | None
) -> None:
    assert plain.config.with_max_tokens(none) == plain.config


# ---------------------------------------------------------------- I6: what makes a picture the same


def test_I6_a_picture_is_named_by_what_it_shows(tmp_path: Path, plain: ImageProcessor) -> None:
    first, second = tmp_path / "first.png", tmp_path / "second.png"
    noise(70, 50).save(first)
    shutil.copy(first, second)
    noise(70, 50).save(tmp_path / "third.bmp")
    names = [first, second, tmp_path / "third.bmp"]
    keys = {plain.process(held(decoded(path))).image.key for path in names}
    assert len(keys) == 1
    noise(70, 50, seed=1).save(first)
    assert plain.process(held(decoded(first))).image.key not in keys


def test_I6_one_pixel_one_shape_or_one_setting_makes_another_picture(tmp_path: Path) -> None:
    image = noise(64, 64)
    touched = image.copy()
    touched.putpixel((63, 63), tuple(255 - level for level in touched.tobytes()[-3:]))
    turned = Image.frombytes("RGB", (128, 32), image.tobytes())
    usual = processor(tmp_path)
    keys = [usual.process(held(picture)).image.key for picture in (image, touched, turned)]
    for changes in (
        {"image_mean": [0.4, 0.5, 0.5]},
        {"image_std": [0.4, 0.5, 0.5]},
        {"rescale_factor": 1 / 256},
        {"do_normalize": False},
        {"do_rescale": False},
        {"temporal_patch_size": 1},
        {"patch_size": 8, "merge_size": 4},
    ):
        keys.append(processor(tmp_path, **changes).process(held(image)).image.key)
    assert len(set(keys)) == len(keys) == 10
    assert all(len(key) == 32 for key in keys)


def test_I6_a_limit_that_does_not_bind_changes_nothing(tmp_path: Path) -> None:
    image = held(noise(64, 64))
    usual = processor(tmp_path).process(image).image
    assert processor(tmp_path, 8).process(image).image == usual
    assert processor(tmp_path, 2).process(image).image != usual


# ---------------------------------------------------------------- settings files


def test_older_and_newer_spellings_mean_the_same(tmp_path: Path) -> None:
    usual = processor(tmp_path)
    older = {key: value for key, value in SETTINGS.items() if key != "size"}
    older |= {"min_pixels": 4096, "max_pixels": 65536}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(older))
    assert ImageProcessor.open(tmp_path, {}, None).config == usual.config
    (tmp_path / "preprocessor_config.json").unlink()
    newer = {"image_processor": SETTINGS}
    (tmp_path / "processor_config.json").write_text(json.dumps(newer))
    assert ImageProcessor.open(tmp_path, {}, None).config == usual.config


def test_a_model_without_a_processor_says_so(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        ImageProcessor.open(tmp_path, {}, None)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"patch_size": 0}',
        b'{"patch_size": "many"}',
        b'{"size": {"shortest_edge": -1}}',
        b'{"size": 5}',
        b'{"image_std": [0, 1, 1]}',
        b'{"image_mean": [0.5]}',
        b'{"do_resize": false}',
        b'{"resample": 77}',
        b'{"min_pixels": 2000000}',
        b'{"max_pixels": 1000000000000}',
        b"[" * 100_000,
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "preprocessor_config.json").write_bytes(content)
    with pytest.raises(BrokenConfigError, match=tmp_path.name):
        ImageProcessor.open(tmp_path, {}, None)


def test_a_processor_that_does_not_fit_the_tower_is_refused(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    fitting = {"vision_config": {"patch_size": 16, "spatial_merge_size": 2}}
    assert ImageProcessor.open(tmp_path, fitting, None).config.patch_size == 16
    with pytest.raises(BrokenConfigError, match="patch_size 16, the model 14"):
        ImageProcessor.open(tmp_path, {"vision_config": {"patch_size": 14}}, None)
