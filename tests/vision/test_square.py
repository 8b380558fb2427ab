"""The square that some towers see. The pixels themselves: tests/oracle/test_gemma3_text.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.api.errors import BrokenConfigError, ImageEmptyError, MissingFileError
from core.vision.kinds import open_processor
from core.vision.processor import ImageProcessor
from core.vision.square import SquareImageProcessor
from tests.vision.pictures import held, noise

MODEL: dict[str, Any] = {
    "model_type": "gemma3",
    "mm_tokens_per_image": 9,
    "vision_config": {"image_size": 24, "patch_size": 4},
}
SETTINGS: dict[str, Any] = {"size": {"height": 24, "width": 24}, "image_seq_length": 9}


def processor(folder: Path, **changes: Any) -> SquareImageProcessor:
    (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS | changes))
    found = open_processor(folder, MODEL, max_tokens=4)
    assert isinstance(found, SquareImageProcessor)
    return found


def test_every_picture_costs_the_same(tmp_path: Path) -> None:
    square = processor(tmp_path)
    # A lower limit is of no use: the tower sees one size.
    assert square.max_tokens == 9
    for size in ((1, 1), (24, 24), (4000, 3)):
        plan = square.measure(*size)
        assert (plan.width, plan.height, plan.tokens) == (24, 24, 9)
    with pytest.raises(ImageEmptyError):
        square.measure(0, 4)


def test_the_key_follows_pixels_and_settings(tmp_path: Path) -> None:
    square, other = processor(tmp_path), processor(tmp_path, image_mean=[0.4, 0.5, 0.5])
    picture = noise(40, 30)
    key = square.process(held(picture)).image.key
    assert square.process(held(noise(40, 30))).image.key == key
    assert square.process(held(noise(41, 30))).image.key != key
    assert other.process(held(picture)).image.key != key


@pytest.mark.parametrize(
    "changes",
    [
        {"size": {"height": 24, "width": 28}},
        {"size": {"shortest_edge": 24}},
        {"size": 24},
        {"image_seq_length": 16},
        {"image_mean": [0.5]},
        {"image_std": [0.5, 0, 0.5]},
        {"do_resize": False},
        {"resample": 17},
        {"rescale_factor": "much"},
        {"do_pan_and_scan": True},
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(BrokenConfigError):
        processor(tmp_path, **changes)


def test_a_folder_without_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        open_processor(tmp_path, MODEL, None)


def test_another_family_keeps_its_own_way(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text("{}")
    assert isinstance(open_processor(tmp_path, {"model_type": "qwen3_5"}, None), ImageProcessor)
