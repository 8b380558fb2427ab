"""Slices of MiniCPM-V: sizes, slices and pixels of transformers' processor, marks, settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from transformers.models.minicpmv4_6.image_processing_pil_minicpmv4_6 import (
    MiniCPMV4_6ImageProcessorPil,
)

from core.api.errors import BrokenConfigError
from core.vision.kinds import open_processor
from core.vision.slices import AROUND_NUMBERS, MARKS, SliceImageProcessor
from tests.vision.pictures import held, noise

MODEL: dict[str, Any] = {"model_type": "minicpmv4_6", "vision_config": {"patch_size": 14}}
SMALL = {"scale_resolution": 112, "max_slice_nums": 4}
SIZES = [
    (448, 448),
    (449, 448),
    (640, 480),
    (1200, 300),
    (300, 1200),
    (1, 1),
    (33, 500),
    (1000, 1000),
]


def token_id(spelling: str) -> int | None:
    return 1000 + (*MARKS, *AROUND_NUMBERS).index(spelling)


Make = Callable[..., SliceImageProcessor]


@pytest.fixture
def processor(tmp_path: Path) -> Make:
    def make(limit: int | None = None, **settings: Any) -> SliceImageProcessor:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
        found = open_processor(tmp_path, MODEL, limit, token_id)
        assert isinstance(found, SliceImageProcessor)
        return found

    return make


@pytest.mark.parametrize("settings", [{}, SMALL, {"slice_mode": False}], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pixels_and_sizes_are_the_reference_s(
    processor: Make, size: tuple[int, int], settings: dict[str, Any]
) -> None:
    picture = noise(*size)
    found = processor(**settings).process(held(picture))
    theirs = MiniCPMV4_6ImageProcessorPil(**settings)(
        numpy.asarray(picture), input_data_format="channels_last", return_tensors="pt"
    )
    sizes = [[grid.rows, grid.columns] for grid in found.grids]
    assert sizes == theirs["target_sizes"].tolist()
    patches = found.pixels.view(-1, 14, 14, 3)
    assert torch.equal(patches.permute(3, 1, 0, 2).reshape(1, 3, 14, -1), theirs["pixel_values"])


def test_every_layout_is_the_reference_s(processor: Make) -> None:
    ours, theirs = processor(), MiniCPMV4_6ImageProcessorPil()
    for height in range(1, 3000, 97):
        for width in range(1, 3000, 83):
            if max(height, width) > 200 * min(height, width):
                continue
            grid = theirs.get_sliced_grid((height, width), 9, 448)
            whole = theirs.find_best_resize((height, width), 448, 14, "16x", grid is None)
            layout = ours._layout(width, height)
            assert (layout.height, layout.width) == whole
            assert [layout.rows, layout.columns] == (grid or [0, 0])
            if grid is not None:
                all_slices = theirs.get_refine_size((height, width), grid, 448, 14, "16x", True)
                assert (layout.slices_height, layout.slices_width) == all_slices
            assert ours.measure(width, height).tokens <= ours.max_tokens


def test_marks_stand_around_the_whole_and_each_slice(processor: Make) -> None:
    grids = processor(**SMALL).process(held(noise(300, 260))).grids
    begin, end, begin_slice, end_slice, line = map(token_id, MARKS)
    assert [(grid.before, grid.after) for grid in grids] == [
        ((begin,), (end,)),
        ((begin_slice,), (end_slice,)),
        ((begin_slice,), (end_slice,)),
        ((line, begin_slice), (end_slice,)),
        ((begin_slice,), (end_slice,)),
    ]


def test_a_limit_leaves_out_slices_and_then_detail(processor: Make) -> None:
    assert len(processor(400).process(held(noise(2000, 2000))).grids) == 5
    assert len(processor(100).process(held(noise(2000, 2000))).grids) == 1
    assert processor(60).measure(2000, 2000).tokens == 7 * 7 + 2


@pytest.mark.parametrize("limit", [64, 100, 201, 256, 512, 1024])
@pytest.mark.parametrize("settings", [{}, {"scale_resolution": 1344}], ids=str)
def test_a_limit_is_kept_whatever_the_shape(
    processor: Make, settings: dict[str, Any], limit: int
) -> None:
    made = processor(limit, **settings)
    for size in ((3999, 20), (20, 3999), (200, 1), (1020, 900), (900, 1500), (8000, 8000)):
        assert made.measure(*size).tokens <= made.max_tokens == limit, size


def test_a_limit_that_nothing_passes_changes_no_size(processor: Make) -> None:
    free, limited = processor(), processor(1024)
    for size in ((1, 1), (33, 500), (1920, 1080), (8000, 5000), (4000, 20)):
        assert limited._layout(*size) == free._layout(*size)


@pytest.mark.parametrize("size", [56, 112, 448, 600])
def test_no_picture_has_more_than_the_most_tokens(processor: Make, size: int) -> None:
    made = processor(scale_resolution=size)
    for narrow in ((200, 1), (4000, 20), (20, 1000), (12000, 60), (1020, 900)):
        assert made.measure(*narrow).tokens <= made.max_tokens


@pytest.mark.parametrize(
    "settings",
    [
        {"patch_size": 16},
        {"downsample_mode": "4x"},
        {"use_image_id": False},
        {"scale_resolution": 40},
        {"scale_resolution": 2**20},
        {"scale_resolution": 8192},
        {"max_slice_nums": 10**6},
        {"max_slice_nums": "many"},
        {"do_resize": False},
    ],
    ids=str,
)
def test_settings_that_can_t_be_followed_are_refused(
    processor: Make, settings: dict[str, Any]
) -> None:
    with pytest.raises(BrokenConfigError):
        processor(**settings)


@pytest.mark.parametrize("absent", [*MARKS, *AROUND_NUMBERS], ids=repr)
def test_a_tokenizer_without_the_marks_is_refused(tmp_path: Path, absent: str) -> None:
    (tmp_path / "preprocessor_config.json").write_text("{}")
    with pytest.raises(BrokenConfigError, match=re.escape(repr(absent))):
        open_processor(tmp_path, MODEL, None, lambda each: None if each == absent else 1)
