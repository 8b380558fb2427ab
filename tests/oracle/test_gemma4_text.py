"""Gemma 4's pictures and prompts as transformers' own processors see them, and released sizes."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from transformers.models.gemma4.image_processing_pil_gemma4 import (
    Gemma4ImageProcessorPil,
    get_aspect_ratio_preserving_size,
)

from core.api.errors import BrokenConfigError
from core.text.chat_text import ChatText
from core.vision.configs import PooledConfig, PublishedSettings
from core.vision.kinds import PooledImageProcessor, open_processor
from core.vision.processor import Grid
from tests.models.releases import RELEASED, planned
from tests.oracle.tiny_gemma4 import TinyGemma4, preprocessor
from tests.text.chats import added_id, chat, plain_ids, render, sampled, user
from tests.text.tiny_tokenizer import template_of, write_text_folder
from tests.vision.pictures import held, noise

SIZES = [(64, 64), (1, 1), (300, 20), (17, 91), (640, 480), (2000, 3), (2, 900)]


def processor(folder: Path, unified: bool = False, **changes: Any) -> PooledImageProcessor:
    settings = preprocessor(TinyGemma4()) | changes
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    model = {
        "model_type": "gemma4_unified" if unified else "gemma4",
        "vision_config": {
            "patch_size": settings["patch_size"],
            "pooling_kernel_size": settings["pooling_kernel_size"],
        },
    }
    found = open_processor(folder, model, None)
    assert isinstance(found, PooledImageProcessor)
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tokens", [70, 280])
def test_pixels_equal_the_reference(size: tuple[int, int], tokens: int, tmp_path: Path) -> None:
    picture = noise(*size)
    found = processor(tmp_path, max_soft_tokens=tokens).process(held(picture))
    settings = preprocessor(TinyGemma4()) | {"max_soft_tokens": tokens}
    expected = Gemma4ImageProcessorPil(**settings)(images=[picture], return_tensors="pt")
    (count,) = expected["num_soft_tokens_per_image"]
    patches = int(count) * 4
    assert torch.equal(found.pixels, expected["pixel_values"][0, :patches].float())
    columns, rows = (expected["image_position_ids"][0, :patches].amax(0) + 1).tolist()
    assert found.grids == (Grid(rows, columns),)
    image = found.image
    assert (image.rows, image.columns) == (rows // 2, columns // 2)
    assert (image.num_positions, image.in_line) == (count, True)


@pytest.mark.parametrize("size", SIZES)
def test_a_token_of_the_unified_model_is_one_large_patch(
    size: tuple[int, int], tmp_path: Path
) -> None:
    """Compared with the same processor at that patch size; the model's own needs torchvision."""
    picture = noise(*size)
    found = processor(tmp_path, unified=True).process(held(picture))
    settings = preprocessor(TinyGemma4()) | {"patch_size": 8, "pooling_kernel_size": 1}
    expected = Gemma4ImageProcessorPil(**settings)(images=[picture], return_tensors="pt")
    (count,) = expected["num_soft_tokens_per_image"]
    assert torch.equal(found.pixels, expected["pixel_values"][0, : int(count)].float())
    assert found.grids == (Grid(found.image.rows, found.image.columns),)


@given(
    st.integers(1, 20_000),
    st.integers(1, 20_000),
    st.sampled_from([70, 140, 280, 560, 1120]),
    st.sampled_from([1, 2, 3]),
)
def test_sizes_of_every_shape_equal_the_reference(
    width: int, height: int, tokens: int, pooling: int
) -> None:
    pixels = PublishedSettings("m", {}).pixels((0, 0, 0), (1, 1, 1), Pillow.Resampling.BICUBIC)
    found = PooledImageProcessor(
        PooledConfig(patch_size=16, pooling=pooling, max_tokens=tokens, **pixels)
    )
    plan = found.measure(width, height)
    expected = get_aspect_ratio_preserving_size(height, width, 16, tokens * pooling**2, pooling)
    assert (plan.height, plan.width) == expected and plan.tokens <= tokens


@pytest.mark.parametrize(
    "changes",
    [
        {"max_soft_tokens": 0},
        {"max_soft_tokens": 10**6},
        {"patch_size": "wide"},
        {"do_resize": False},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BrokenConfigError):
        processor(tmp_path, **changes)


def test_a_limit_of_tokens_makes_pictures_smaller_and_keeps_keys(tmp_path: Path) -> None:
    processor(tmp_path)
    model = {"model_type": "gemma4", "vision_config": {"patch_size": 4, "pooling_kernel_size": 2}}
    few = open_processor(tmp_path, model, 20)
    assert few.max_tokens == 20 and few.measure(640, 480).tokens <= 20
    picture = held(noise(16, 8))
    less = open_processor(tmp_path, model, 2)
    assert (
        less.process(picture).image.key
        == open_processor(tmp_path, model, 3).process(picture).image.key
    )


@pytest.mark.parametrize("name", [name for name in RELEASED if name.startswith("Gemma-4")])
def test_a_release_has_the_parameters_that_transformers_gives_it(name: str) -> None:
    """Without the audio tower."""
    values = copy.deepcopy(RELEASED[name]) | {"audio_config": None}
    unified = values.pop("model_type") == "gemma4_unified"
    if "rope_parameters" in values["vision_config"]:
        values["vision_config"]["rope_parameters"]["rope_type"] = "axial"
    kind = "Gemma4Unified" if unified else "Gemma4"
    with torch.device("meta"):
        config = getattr(transformers, f"{kind}Config")(**values)
        oracle = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    expected: Sequence[str] = [
        name for name in oracle.state_dict() if not name.endswith("embed_scale")
    ]
    tensors = oracle.state_dict()
    tied = {"lm_head.weight"}
    count = sum(math.prod(tensors[each].shape) for each in expected if each not in tied)
    plan, _ = planned(RELEASED[name], _stacks(values["text_config"]))
    assert sum(spec.num_elements for spec in plan.values()) == count


def _stacks(text: dict[str, Any]) -> dict[str, tuple[int, ...]] | None:
    if not text["enable_moe_block"]:
        return None
    count, width, inner = (
        text[key] for key in ("num_experts", "hidden_size", "moe_intermediate_size")
    )
    return {
        "experts.gate_up_proj": (count, 2 * inner, width),
        "experts.down_proj": (count, width, inner),
    }


# ------------------------------------------------------------------ the published template


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[ChatText, Any]:
    """The text of a folder with it, and transformers' tokenizer of the same folder."""
    folder = tmp_path_factory.mktemp("published")
    write_text_folder(folder, "gemma4", template_of("gemma4_tools"))
    return ChatText.open(folder), transformers.PreTrainedTokenizerFast.from_pretrained(folder)


@pytest.mark.parametrize("thinking", [True, False])
def test_T1_T5_three_turns_of_the_published_template(
    published: tuple[ChatText, Any], thinking: bool
) -> None:
    text, tokenizer = published
    assert text.spliced and text.has_thinking_switch and text.takes_images
    opens, closes, ends = (
        added_id(text, f"<{each}>") for each in ("|channel", "channel|", "turn|")
    )
    thought = [opens, *plain_ids(text, "thought\nhm\n"), closes] if thinking else []
    said: list[Any] = []
    shown: list[dict[str, str]] = []
    asked = list[int]()
    for question, answer in (("What is it?", "It shows two"), ("And?", "One line"), ("Why?", "")):
        said.append(user(question))
        shown.append({"role": "user", "content": question})
        rendered = render(text, chat(*said), thinking)
        found = rendered.prompt.ids(0)
        assert found == tokenizer.apply_chat_template(
            shown, add_generation_prompt=True, return_dict=False, enable_thinking=thinking
        )
        assert found[: len(asked)] == asked and rendered.closes_reasoning != thinking
        asked = found[: len(found) - found[::-1].index(ends)]
        reply = sampled(text, [*thought, *plain_ids(text, answer)], answer=answer)
        said.append(reply.model_copy(update={"reasoning": "hm" if thinking else ""}))
        shown.append({"role": "assistant", "content": answer})
    edited = chat(*said[:2], user("Or else?"))
    other = render(text, edited, thinking)
    start = other.message_starts[2].value
    assert other.prompt.ids(0)[:start] == asked[:start] and start > 12
