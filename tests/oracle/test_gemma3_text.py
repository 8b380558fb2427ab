"""Gemma 3's pictures as transformers' own processor sees them: pixels to the bit, and ids."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from transformers import Gemma3Processor, PreTrainedTokenizerFast
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

from core.api.chat import AssistantMessage, ImagePart, Message, UserMessage
from core.api.prompt import Image
from core.text.chat_text import ChatText
from core.vision.kinds import open_processor
from core.vision.processor import Grid
from tests.oracle.test_templates import as_dict
from tests.oracle.tiny_gemma3 import TinyGemma3, preprocessor
from tests.text.chats import PICTURE, chat, plain_ids, sampled, system, user
from tests.text.tiny_tokenizer import gemma3_image_ids, write_text_folder
from tests.vision.pictures import held, noise

SETTINGS: dict[str, dict[str, Any]] = {
    "published": {},
    "bicubic": {"resample": 3, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25]},
    "raw": {"do_rescale": False, "do_normalize": False},
    "remainder": {"size": {"height": 26, "width": 26}},
}
TOKENS = 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_folder(tmp_path_factory.mktemp("gemma3"), "gemma3")


@pytest.fixture(scope="module")
def text(folder: Path) -> ChatText:
    return ChatText.open(folder)


@pytest.fixture(scope="module")
def processor(folder: Path) -> Gemma3Processor:
    """The oracle, with the tokens that the published tokenizer names."""
    tokens = {"boi": "boi_token_index", "image": "image_token_index", "eoi": "eoi_token_index"}
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    for name, key in tokens.items():
        token_id = gemma3_image_ids()[key]
        setattr(tokenizer, f"{name}_token_id", token_id)
        setattr(tokenizer, f"{name}_token", tokenizer.convert_ids_to_tokens(token_id))
    images = Gemma3ImageProcessorPil(**preprocessor(TinyGemma3()))
    return Gemma3Processor(images, tokenizer, image_seq_length=TOKENS)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("size", [(24, 24), (1, 1), (300, 20), (17, 91), (64, 48)])
def test_pixels_equal_the_reference(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    settings = preprocessor(TinyGemma3()) | SETTINGS[name]
    edge = settings["size"]["height"]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    model = {
        "model_type": "gemma3",
        "vision_config": {"image_size": edge, "patch_size": 4},
        "mm_tokens_per_image": TOKENS,
    }
    picture = noise(*size)
    found = open_processor(tmp_path, model, None).process(held(picture))
    (expected,) = Gemma3ImageProcessorPil(**settings)(images=[picture], return_tensors="pt")[
        "pixel_values"
    ]
    side = edge // 4
    cut = expected.unfold(1, 4, 4).unfold(2, 4, 4).permute(1, 2, 0, 3, 4).reshape(side**2, 48)
    assert torch.equal(found.pixels, cut.float())
    assert found.grids == (Grid(side, side),)
    image = found.image
    assert (image.rows, image.columns, image.num_positions, image.in_line) == (3, 3, 9, True)


said = st.text(st.sampled_from("abc AB 01 .,!?<>[]\n\t"), min_size=1, max_size=20).filter(
    lambda words: bool(words.strip())
)


@given(said, said, said)
def test_T5_pictures_in_their_frames_equal_the_processors(
    text: ChatText, processor: Gemma3Processor, before: str, after: str, rules: str
) -> None:
    for content in ((PICTURE, before), (before, PICTURE), (before, PICTURE, PICTURE, after)):
        messages: list[Message] = [
            system(rules),
            user(*content),
            AssistantMessage(text="two"),
            user(after, PICTURE),
        ]
        assert _ids(text, messages) == _expected(processor, messages)


def test_T5_T2_a_spliced_reply_about_a_picture_equals_the_processors(
    text: ChatText, processor: Gemma3Processor
) -> None:
    plain: list[Message] = [user(PICTURE, "what?"), AssistantMessage(text="It shows"), user("so")]
    spliced = [plain[0], sampled(text, plain_ids(text, "It shows")), plain[2]]
    assert text.spliced
    assert _ids(text, spliced) == _expected(processor, plain)


@pytest.mark.parametrize("typed", ["<start_of_image>", "<image_soft_token>", "<end_of_image>"])
@pytest.mark.parametrize("splice", [True, False])
def test_I5_a_typed_picture_is_text(text: ChatText, typed: str, splice: bool) -> None:
    """In the history as it is spliced, and in the fallback where it is encoded again."""
    shown = copy.copy(text)
    shown.spliced = splice
    counts = [
        _ids(shown, [user(said, PICTURE), AssistantMessage(text=said), user(said)])
        for said in ("x", typed)
    ]
    for token_id in gemma3_image_ids().values():
        assert counts[0].count(token_id) == counts[1].count(token_id) > 0


def _ids(text: ChatText, messages: Sequence[Message]) -> list[int]:
    pictures = sum(
        isinstance(part, ImagePart)
        for message in messages
        if isinstance(message, UserMessage)
        for part in message.content
    )
    image = Image(b"square".ljust(32), 3, 3, TOKENS, in_line=True)
    rendered = text.render(chat(*messages), [image] * pictures, None, 4096)
    assert text.image_token_id is not None
    return rendered.prompt.ids(text.image_token_id)


def _expected(processor: Gemma3Processor, messages: Sequence[Message]) -> list[int]:
    """Ids that the processor returns for the same conversation, with a picture in each place."""
    told = [as_dict(message) for message in messages]
    written: Any = processor.tokenizer.apply_chat_template(
        told, tokenize=False, add_generation_prompt=True
    )
    pictures = [Pillow.new("RGB", (24, 24))] * written.count("<start_of_image>")
    given = processor(text=[written], images=[pictures], add_special_tokens=False)
    found: list[int] = given["input_ids"][0]
    return found
