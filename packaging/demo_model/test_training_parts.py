"""Compares the training shortcuts with transformers' forward and the chat template.

Run by hand: `python -m pytest packaging/demo_model`.
"""

from __future__ import annotations

import random

import pytest
import torch
from batches import Bank, embed, pad_together
from conversations import Conversation, Plan, make_conversation
from encoding import Encoder, conversation_pieces
from language import run_language
from pictures import stack_pictures, to_patches, to_pixels
from published_model import DEMO_FOLDER
from questions import case_of
from tower import run_tower
from transformers import AutoModelForImageTextToText, AutoTokenizer
from world import Scene, draw_scene, draw_scene_from, is_held_out, random_size

SCENES = [draw_scene_from(random.Random(i), held_out=False) for i in range(40)]
PICTURES = [draw_scene(scene, random.Random(i)) for i, scene in enumerate(SCENES)]


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return AutoModelForImageTextToText.from_pretrained(DEMO_FOLDER, dtype=torch.float32)


def talks(count: int) -> list[Conversation]:
    rng = random.Random(5)
    return [make_conversation(rng, SCENES, Plan()) for _ in range(count)]


def test_pieces_are_what_the_template_writes() -> None:
    """The encoder's text is the rendered prompt and the answer behind it."""
    tokenizer = AutoTokenizer.from_pretrained(DEMO_FOLDER)
    for talk in talks(60):
        case = case_of(talk, PICTURES)
        prompt = tokenizer.apply_chat_template(
            case.messages,
            add_generation_prompt=True,
            enable_thinking=talk.thinking,
            add_vision_id=talk.number_pictures,
            tokenize=False,
        )
        pieces = conversation_pieces(talk)
        assert "".join(piece.text for piece in pieces[:-1]) == prompt


def test_pieces_tokenize_as_the_whole() -> None:
    """Cutting at the pieces moves no token boundary."""
    tokenizer = AutoTokenizer.from_pretrained(DEMO_FOLDER)._tokenizer
    encoder = Encoder(tokenizer)
    for talk in talks(60):
        whole = "".join(piece.text for piece in conversation_pieces(talk))
        whole = whole.replace("<|image_pad|>", "<|image_pad|>" * 9)
        assert encoder.encode(talk).ids == tokenizer.encode(whole).ids


@torch.no_grad()
def test_tower_is_the_reference(model: torch.nn.Module) -> None:
    """All pictures at once read as one by one."""
    flat, grids = stack_pictures(PICTURES[:3])
    expected = model.model.visual(flat, grid_thw=grids).pooler_output
    pixels = torch.stack([torch.from_numpy(to_pixels(p).copy()) for p in PICTURES[:3]])
    found = run_tower(model.model.visual, to_patches(pixels)).flatten(0, 1)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_language_is_the_reference(model: torch.nn.Module) -> None:
    """Padded batches of chunks give the hidden states of the reference."""
    encoder = Encoder(AutoTokenizer.from_pretrained(DEMO_FOLDER)._tokenizer)
    batch = pad_together([encoder.encode(talk) for talk in talks(4)], encoder.pad)
    language = model.model.language_model
    pixels = torch.stack([torch.from_numpy(to_pixels(p).copy()) for p in PICTURES])
    bank = Bank(SCENES, run_tower(model.model.visual, to_patches(pixels)))
    embedded = embed(model, batch, bank)
    expected = language(inputs_embeds=embedded, position_ids=batch.positions, use_cache=False)
    found = run_language(language, embedded, batch.positions)
    used = batch.ids != encoder.pad
    reference = expected.last_hidden_state[used]
    torch.testing.assert_close(found[used], reference, atol=1e-4, rtol=1e-4)


def test_splits_share_no_scene() -> None:
    """A scene's contents alone decide its split, and sizes never leave the trained grid."""
    rng = random.Random(3)
    for _ in range(200):
        scene: Scene = draw_scene_from(rng, held_out=True)
        assert is_held_out(scene)
        pixels = to_pixels(draw_scene(scene, rng, random_size(rng)))
        assert pixels.shape == (96, 96, 3)
