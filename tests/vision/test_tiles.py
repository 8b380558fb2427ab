"""Pictures in their own shape or in tiles: sizes of the reference, pixels in order, settings.

The sizes and tiles below are what transformers' `Lfm2VlImageProcessor` gave, which needs a library
that the tests don't have. Its pixels were equal but for one level of 256 where a picture is
resized: it rounds as torchvision does, here Pillow resizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image as Pillow

from core.api.errors import BrokenConfigError
from core.vision.kinds import open_processor
from core.vision.processor import Grid
from core.vision.tiles import Layout, TileImageProcessor
from tests.vision.pictures import held, noise

MODEL: dict[str, Any] = {"model_type": "lfm2_vl", "vision_config": {"patch_size": 16}}
SMALL: dict[str, Any] = {
    "encoder_patch_size": 4,
    "min_image_tokens": 4,
    "max_image_tokens": 16,
    "tile_size": 16,
    "max_tiles": 4,
}
FEW = {"max_tiles": 3, "max_image_tokens": 128, "tile_size": 256, "max_pixels_tolerance": 1.0}
SETTINGS: dict[str, dict[str, Any]] = {"published": {}, "one": {"min_tiles": 1}, "few": FEW}
# The size as a whole, and columns and rows of tiles.
SIZES = [
    ("published", (512, 512), (512, 512), (0, 0)),
    ("published", (1, 1), (256, 256), (0, 0)),
    ("published", (33, 47), (224, 320), (0, 0)),
    ("published", (640, 480), (576, 416), (0, 0)),
    ("published", (724, 724), (512, 512), (2, 2)),
    ("published", (1024, 512), (704, 352), (0, 0)),
    ("published", (1920, 1080), (672, 384), (4, 2)),
    ("published", (3000, 4000), (416, 576), (2, 3)),
    ("published", (700, 5000), (160, 1344), (1, 7)),
    ("published", (60, 12000), (32, 7232), (1, 10)),
    ("published", (8000, 8000), (512, 512), (3, 3)),
    ("one", (725, 725), (512, 512), (2, 2)),
    ("one", (1920, 1080), (672, 384), (4, 2)),
    ("few", (512, 512), (352, 352), (1, 2)),
    ("few", (640, 480), (416, 288), (2, 1)),
    ("few", (700, 5000), (128, 960), (1, 3)),
    ("few", (1, 1), (256, 256), (0, 0)),
]


def token_id(spelling: str) -> int | None:
    """Stand-in for a tokenizer: 1000 + 100 rows + columns, 999 for the whole."""
    if spelling == "<|img_thumbnail|>":
        return 999
    row, column = spelling.removeprefix("<|img_row_").removesuffix("|>").split("_col_")
    return 1000 + 100 * int(row) + int(column)


@pytest.fixture
def processor(tmp_path: Path) -> Callable[..., TileImageProcessor]:
    def make(
        limit: int | None = None, model: dict[str, Any] | None = None, **settings: Any
    ) -> TileImageProcessor:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
        patch = settings.get("encoder_patch_size", 16)
        config = MODEL | {"vision_config": {"patch_size": patch}} | (model or {})
        found = open_processor(tmp_path, config, limit, token_id)
        assert isinstance(found, TileImageProcessor)
        return found

    return make


Make = Callable[..., TileImageProcessor]


@pytest.mark.parametrize(("name", "size", "whole", "tiles"), SIZES)
def test_sizes_and_tiles_are_those_of_the_reference(
    processor: Make,
    name: str,
    size: tuple[int, int],
    whole: tuple[int, int],
    tiles: tuple[int, int],
) -> None:
    made = processor(**SETTINGS[name])
    assert made._layout(*size) == Layout(*whole, *tiles)
    count, side = tiles[0] * tiles[1], made.config.tile_size // 32
    tokens = count * (side**2 + 1) + (count > 0) + whole[0] * whole[1] // 32**2
    plan = made.measure(*size)
    assert plan.tokens == tokens <= made.max_tokens
    edge = made.config.tile_size
    shown = (tiles[0] * edge, tiles[1] * edge) if count else whole
    assert (plan.width, plan.height) == shown


def test_a_single_tile_would_be_the_picture_itself(processor: Make) -> None:
    assert processor(min_tiles=1)._layout(724, 724) == Layout(512, 512)


def patches_of(image: Pillow.Image, patch: int) -> torch.Tensor:
    """Row by row, each its own pixels row by row, colours inside, from -1 to 1."""
    pixels = torch.from_numpy(numpy.array(image.convert("RGB"))).double() / 127.5 - 1
    rows = [
        pixels[top : top + patch, left : left + patch].flatten()
        for top in range(0, image.height, patch)
        for left in range(0, image.width, patch)
    ]
    return torch.stack(rows).float()


def test_a_small_picture_is_seen_in_its_own_shape(processor: Make) -> None:
    picture = noise(32, 24)
    found = processor(**SMALL).process(held(picture))
    assert found.grids == (Grid(6, 8),)
    torch.testing.assert_close(found.pixels, patches_of(picture, 4), rtol=0, atol=1e-6)
    image = found.image
    assert (image.rows, image.columns, image.num_positions, image.in_line) == (3, 4, 12, True)


def test_a_large_picture_is_seen_tile_by_tile_and_as_a_whole(processor: Make) -> None:
    picture = noise(70, 50)
    found = processor(**SMALL).process(held(picture))
    tiles = [(1, 1), (1, 2), (2, 1), (2, 2)]
    whole = picture.resize((32, 24), Pillow.Resampling.BILINEAR)
    assert found.grids == (
        *(Grid(4, 4, (1000 + 100 * row + column,)) for row, column in tiles),
        Grid(6, 8, (999,)),
    )
    resized = picture.resize((32, 32), Pillow.Resampling.BILINEAR)
    cuts = [
        resized.crop((16 * column - 16, 16 * row - 16, 16 * column, 16 * row))
        for row, column in tiles
    ]
    expected = torch.cat([patches_of(each, 4) for each in (*cuts, whole)])
    torch.testing.assert_close(found.pixels, expected, rtol=0, atol=1e-6)
    image = found.image
    assert (image.rows, image.columns) == (1, 4 * (4 + 1) + 1 + 12) and image.in_line


def test_the_whole_may_be_left_out_and_tiles_too(processor: Make) -> None:
    picture = noise(70, 50)
    without = processor(**SMALL, use_thumbnail=False).process(held(picture))
    assert len(without.grids) == 4 and len(without.pixels) == 4 * 16
    at_once = processor(**SMALL, do_image_splitting=False).process(held(picture))
    assert at_once.grids == (Grid(6, 8),)


def test_a_limit_takes_tiles_away_and_then_detail(processor: Make) -> None:
    assert processor().max_tokens == 10 * 257 + 257
    for limit, tiles, tokens in (
        (0, 10, 2827),
        (2826, 9, 2570),
        (1285, 4, 1285),
        (1284, 0, 256),
        (100, 0, 100),
        (8, 0, 8),
    ):
        made = processor(limit)
        assert (made.config.max_tiles, made.max_tokens) == (tiles, tokens), limit
        for size in ((3000, 2000), (500, 400), (20, 10)):
            assert made.measure(*size).tokens <= tokens


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 64, 100, 3000, 10**6])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_thumbnail": False},
        {"use_thumbnail": False, "tile_size": 32, "max_image_tokens": 4000},
        {"do_image_splitting": False, "min_image_tokens": 5, "max_image_tokens": 7},
    ],
    ids=["published", "no_whole", "small_tiles", "few_tokens"],
)
def test_a_limit_is_kept_whatever_the_shape(
    processor: Make, settings: dict[str, Any], limit: int
) -> None:
    made = processor(limit, **settings)
    assert made.max_tokens <= limit
    narrow = [(3999, 20), (20, 3999), (200, 1), (20, 10), (47, 33), (12000, 60), (8000, 8000)]
    for width, height in narrow:
        plan, layout = made.measure(width, height), made._layout(width, height)
        assert 0 < plan.tokens <= made.max_tokens
        assert min(layout.width, layout.height) >= 32


def test_a_limit_that_nothing_passes_changes_no_size(processor: Make) -> None:
    free, limited = processor(), processor(10**6)
    for width in (1, 33, 60, 640, 1920, 8000):
        for height in (1, 47, 480, 1080, 5000):
            if max(width, height) <= 200 * min(width, height):
                assert limited._layout(width, height) == free._layout(width, height)


def test_without_a_limit_sizes_are_the_reference_s_even_past_the_most(processor: Make) -> None:
    settings = {"do_image_splitting": False, "min_image_tokens": 4, "max_image_tokens": 10}
    layout = processor(**settings)._layout(3999, 20)
    assert (layout.width, layout.height) == (44 * 32, 32)


def test_the_tower_and_the_tokenizer_must_agree(processor: Make, tmp_path: Path) -> None:
    with pytest.raises(BrokenConfigError, match="patch_size"):
        processor(model={"vision_config": {"patch_size": 14}})
    with pytest.raises(BrokenConfigError, match="img_row_1_col_1"):
        open_processor(tmp_path, MODEL, None)
    # Without tiles there is nothing to tell apart.
    (tmp_path / "preprocessor_config.json").write_text('{"do_image_splitting": false}')
    assert open_processor(tmp_path, MODEL, None).max_tokens == 256
