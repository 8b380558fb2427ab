"""Sizes, tokens, keys and settings of all processors. Pixels: tests/oracle/test_pixels.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from core.api.errors import BrokenConfigError, ImageAspectError, ImageEmptyError, MissingFileError
from core.vision.kinds import ImageProcessor, open_processor
from core.vision.processor import PictureProcessor
from tests.vision.pictures import decoded, held, noise
from tests.vision.test_tiles import SMALL, token_id

HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
SIZE = {"shortest_edge": 4096, "longest_edge": 65536}
# By kind: config.json, and the processor's settings.
MODELS: dict[str, dict[str, Any]] = {
    "shaped": {},
    "square": {
        "model_type": "gemma3",
        "mm_tokens_per_image": 9,
        "vision_config": {"image_size": 24, "patch_size": 4},
    },
    "tiles": {"model_type": "lfm2_vl", "vision_config": {"patch_size": 4}},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "shaped": {"size": SIZE, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, **HALF},
    "square": {"size": {"height": 24, "width": 24}, "image_seq_length": 9},
    "tiles": SMALL,
}
NAME = "preprocessor_config.json"
sides = st.integers(1, 700)


def opened(
    folder: Path, kind: str = "shaped", limit: int | None = None, **changes: Any
) -> PictureProcessor:
    (folder / NAME).write_text(json.dumps(SETTINGS[kind] | changes))
    return open_processor(folder, MODELS[kind], limit, token_id)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ImageProcessor:
    found = opened(tmp_path_factory.mktemp("processor"))
    assert isinstance(found, ImageProcessor)
    return found


# ---------------------------------------------------------------- sizes and tokens


def test_I7_a_picture_advances_the_position_by_its_longer_side(plain: ImageProcessor) -> None:
    wide = plain.process(held(noise(256, 64))).image
    assert (wide.rows, wide.columns, wide.num_tokens, wide.num_positions) == (2, 8, 16, 8)
    tall = plain.process(held(noise(64, 256))).image
    assert (tall.rows, tall.columns, tall.num_positions) == (8, 2, 8)


def test_I7_a_picture_in_a_line_advances_the_position_by_its_tokens(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(json.dumps(SETTINGS["shaped"]))
    processor = open_processor(tmp_path, {"model_type": "lfm3_vl"}, None, token_id)
    image = processor.process(held(noise(256, 64))).image
    assert (image.rows, image.columns, image.num_positions, image.in_line) == (2, 8, 16, True)


@pytest.mark.parametrize("kind", ["shaped", "tiles"])
def test_too_long_and_thin_is_refused_with_its_numbers(kind: str, tmp_path: Path) -> None:
    processor = opened(tmp_path, kind)
    assert processor.measure(200, 1).tokens > 0
    for size in ((201, 1), (1, 201), (4001, 20)):
        with pytest.raises(ImageAspectError, match=f"{size[0]} x {size[1]}"):
            processor.measure(*size)


@pytest.mark.parametrize("kind", MODELS)
def test_an_empty_picture_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ImageEmptyError, match="0 x 10"):
        opened(tmp_path, kind).measure(0, 10)


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


def test_without_max_tokens_the_processors_own_limit_holds(plain: ImageProcessor) -> None:
    assert plain.config.with_max_tokens(None) == plain.config.with_max_tokens(0) == plain.config


def test_every_square_costs_the_same(tmp_path: Path) -> None:
    square = opened(tmp_path, "square", limit=4)  # of no use: the tower sees one size
    assert square.max_tokens == 9
    for size in ((1, 1), (24, 24), (4000, 3)):
        plan = square.measure(*size)
        assert (plan.width, plan.height, plan.tokens) == (24, 24, 9)


# ---------------------------------------------------------------- I6: what makes a picture the same


def test_I6_a_picture_is_named_by_what_it_shows(tmp_path: Path, plain: ImageProcessor) -> None:
    first, second, third = (tmp_path / name for name in ("first.png", "second.png", "third.bmp"))
    noise(70, 50).save(first)
    shutil.copy(first, second)
    noise(70, 50).save(third)
    keys = {plain.process(held(decoded(path))).image.key for path in (first, second, third)}
    assert len(keys) == 1
    noise(70, 50, seed=1).save(first)
    assert plain.process(held(decoded(first))).image.key not in keys


PIXELS: list[dict[str, Any]] = [
    {"image_mean": [0.4, 0.5, 0.5]},
    {"image_std": [0.4, 0.5, 0.5]},
    {"rescale_factor": 1 / 256},
    {"do_normalize": False},
    {"do_rescale": False},
]
OTHERS: dict[str, list[dict[str, Any]]] = {
    "shaped": [{"temporal_patch_size": 1}, {"patch_size": 8, "merge_size": 4}],
    "square": [],
    "tiles": [{"do_image_splitting": False}],
}


@pytest.mark.parametrize("kind", MODELS)
def test_I6_one_pixel_one_shape_or_one_setting_makes_another_picture(
    kind: str, tmp_path: Path
) -> None:
    image = noise(64, 64)
    touched = image.copy()
    touched.putpixel((63, 63), tuple(255 - level for level in touched.tobytes()[-3:]))
    turned = Image.frombytes("RGB", (128, 32), image.tobytes())
    usual = opened(tmp_path, kind)
    keys = [usual.process(held(picture)).image.key for picture in (image, touched, turned)]
    for changes in (*PIXELS, *OTHERS[kind]):
        keys.append(opened(tmp_path, kind, **changes).process(held(image)).image.key)
    assert len(set(keys)) == len(keys) == 8 + len(OTHERS[kind])
    assert all(len(key) == 32 for key in keys)
    assert opened(tmp_path, kind).process(held(noise(64, 64))).image.key == keys[0]


# The keys of a picture are saved with contexts: they never change for the same settings.
KEYS = {"shaped": "131d9147dad3a653", "square": "ecdf3f129426feae", "tiles": "f5ffb63db9b28eb4"}


@pytest.mark.parametrize("kind", MODELS)
def test_I6_keys_outlive_a_version(kind: str, tmp_path: Path) -> None:
    found = opened(tmp_path, kind).process(held(Image.new("RGB", (70, 50), (9, 99, 200))))
    assert found.image.key.hex()[:16] == KEYS[kind]


def test_I6_a_limit_that_does_not_bind_changes_nothing(tmp_path: Path) -> None:
    image = held(noise(64, 64))
    usual = opened(tmp_path).process(image).image
    assert opened(tmp_path, limit=8).process(image).image == usual
    assert opened(tmp_path, limit=2).process(image).image != usual


# ---------------------------------------------------------------- settings files


def test_older_and_newer_spellings_mean_the_same(tmp_path: Path) -> None:
    usual = opened(tmp_path)
    older = {key: value for key, value in SETTINGS["shaped"].items() if key != "size"}
    older |= {"min_pixels": 4096, "max_pixels": 65536}
    (tmp_path / NAME).write_text(json.dumps(older))
    assert open_processor(tmp_path, {}, None).config == usual.config
    (tmp_path / NAME).unlink()
    newer = {"image_processor": SETTINGS["shaped"]}
    (tmp_path / "processor_config.json").write_text(json.dumps(newer))
    assert open_processor(tmp_path, {}, None).config == usual.config


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_without_a_processor_says_so(kind: str, tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        open_processor(tmp_path, MODELS[kind], None)


OF_ALL = """
{"image_mean": [0.5]}  {"image_std": [0.5, 0, 0.5]}  {"do_resize": false}  {"resample": 77}
{"rescale_factor": "much"}
"""
REFUSED = {
    "shaped": """
{"patch_size": 0}  {"patch_size": "many"}  {"size": {"shortest_edge": -1}}  {"size": 5}
{"min_pixels": 2000000}  {"max_pixels": 1000000000000}  {"merge_size": 0}
{"temporal_patch_size": 0}
""",
    "square": """
{"size": {"height": 24, "width": 28}}  {"size": {"height": 28, "width": 24}}
{"size": {"shortest_edge": 24}}  {"size": 24}  {"image_seq_length": 16}  {"do_pan_and_scan": true}
""",
    "tiles": """
{"encoder_patch_size": 14}  {"downsample_factor": 3}  {"min_image_tokens": 0}
{"min_image_tokens": 300}  {"min_tiles": 11}  {"min_tiles": 0}  {"max_tiles": 1000}
{"tile_size": 500}  {"tile_size": 16384}  {"tile_size": "large"}  {"max_pixels_tolerance": 0}
{"max_pixels_tolerance": "nan"}  {"max_image_tokens": 1000000}
""",
}
ROWS = [
    (kind, change.strip())
    for kind in MODELS
    for line in (OF_ALL + REFUSED[kind]).splitlines()
    for change in line.split("  ")
    if change
]


@pytest.mark.parametrize(("kind", "change"), ROWS)
def test_settings_that_make_no_sense_are_refused(kind: str, change: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenConfigError, match=tmp_path.name):
        opened(tmp_path, kind, **json.loads(change))


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000])
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(BrokenConfigError, match=tmp_path.name):
        open_processor(tmp_path, {}, None)


def test_a_processor_that_does_not_fit_the_tower_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(json.dumps(SETTINGS["shaped"]))
    fitting = {"vision_config": {"patch_size": 16, "spatial_merge_size": 2}}
    assert open_processor(tmp_path, fitting, None).max_tokens == 64
    with pytest.raises(BrokenConfigError, match="patch_size 16, the model 14"):
        open_processor(tmp_path, {"vision_config": {"patch_size": 14}}, None)
