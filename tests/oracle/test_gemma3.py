"""Gemma 3 against transformers' own implementation, on tiny random checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Gemma3ForConditionalGeneration

from tests.oracle.runs import TOLERANCE, Pair, assert_same, deviation, load, rms_ratio, text
from tests.oracle.tiny_gemma3 import (
    Pieces,
    Square,
    TinyGemma3,
    make_gemma3_pair,
    oracle_inputs,
    oracle_logits,
    our_logits,
    prompt_of,
)

TINY = TinyGemma3()
VARIANTS = {
    "vision": TINY,
    "text-only": TinyGemma3(text_only=True, seed=1),
    "untied": TinyGemma3(tied=False, seed=2),
    "no-groups": TinyGemma3(heads=2, kv_heads=2, seed=3),
    "plain-rope": TinyGemma3(full_rope={"rope_type": "default", "rope_theta": 1e6}, seed=4),
    "window-of-one": TinyGemma3(window=1, seed=5),
    "window-of-all": TinyGemma3(window=4096, seed=6),
    "sharded": TinyGemma3(max_shard_size="40KB", seed=7),
}
ONE, TWO = Square(TINY, 1), Square(TINY, 2)
# The window of 8 is smaller than the prompt and than a picture of 9 tokens.
PICTURES: dict[str, Pieces] = {
    "one": [text(5), ONE, text(4, 1)],
    "first": [ONE, text(6, 1)],
    "last": [text(20), TWO],
    "several": [text(13), ONE, text(2, 1), TWO, text(1, 2), ONE, text(15, 3)],
}
MIXED = PICTURES["several"]
LONG: Pieces = [text(150)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_gemma3_pair(tmp_path_factory.mktemp("gemma3"), TINY)


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_text_logits_agree(tiny: TinyGemma3, tmp_path: Path) -> None:
    made = make_gemma3_pair(tmp_path, tiny)
    assert_same(our_logits(made.model, LONG), oracle_logits(made, LONG))


@pytest.mark.parametrize("pieces", PICTURES.values(), ids=PICTURES.keys())
def test_picture_logits_agree(pair: Pair, pieces: Pieces) -> None:
    assert_same(our_logits(pair.model, pieces), oracle_logits(pair, pieces))


@pytest.mark.parametrize(
    "tiny",
    [
        TinyGemma3(tokens_per_side=6, window=20, seed=20),
        TinyGemma3(tokens_per_side=1, image_size=26, vision_depth=1, seed=21),
        TinyGemma3(vision_heads=1, vision_hidden=40, tokens_per_side=2, hidden=48, seed=22),
    ],
    ids=["unpooled", "one-token", "other-width"],
)
def test_towers_agree(tiny: TinyGemma3, tmp_path: Path) -> None:
    made = make_gemma3_pair(tmp_path, tiny)
    pieces: Pieces = [text(7), Square(tiny, 1), text(3, 1), Square(tiny, 2), text(9, 2)]
    assert_same(our_logits(made.model, pieces), oracle_logits(made, pieces))


def test_a_picture_attends_both_ways(pair: Pair) -> None:
    """A picture's first token sees its last: with the picture as text the logits differ."""
    expected = oracle_logits(pair, PICTURES["one"])
    given = oracle_inputs(PICTURES["one"]) | {"token_type_ids": torch.zeros(1, 18).long()}
    with torch.inference_mode():
        causal = pair.oracle(**given, use_cache=False).logits[0]
    assert deviation(causal[5:14], expected[5:14]) > 0.1


@pytest.mark.parametrize("pieces", [LONG, MIXED], ids=["text", "pictures"])
def test_greedy_tokens_are_the_same(pair: Pair, pieces: Pieces) -> None:
    given = oracle_inputs(pieces)
    oracle: Any = pair.oracle
    made = oracle.generate(
        **given,
        attention_mask=torch.ones_like(given["input_ids"]),
        max_new_tokens=24,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    length = given["input_ids"].shape[1]
    chosen = made.sequences[0, length:].tolist()
    assert len(chosen) == 24
    found = our_logits(pair.model, pieces, forced=chosen[:-1])[length - 1 :]
    assert_same(found, torch.cat(made.logits))


def test_every_legal_cut_equals_one_shot(pair: Pair) -> None:
    expected = oracle_logits(pair, MIXED)
    pictures = [run for run in prompt_of(MIXED).runs if run.num_tokens == 9]
    inside = {
        place for run in pictures for place in range(run.start.token.value + 1, run.end.token.value)
    }
    legal = [cut for cut in range(1, expected.shape[0]) if cut not in inside]
    found = [our_logits(pair.model, MIXED, [cut]) for cut in legal]
    assert len(inside) == 24 and len(found) == expected.shape[0] - 25
    assert max(deviation(logits, expected) for logits in found) <= TOLERANCE


def test_text_token_by_token_equals_one_shot(pair: Pair) -> None:
    for pieces in (LONG, MIXED):
        found = our_logits(pair.model, pieces, range(1, 150))
        assert_same(found, oracle_logits(pair, pieces))


def test_bfloat16_is_close_to_float32_and_no_rougher_than_the_oracle(tmp_path: Path) -> None:
    tiny = TinyGemma3(dtype=torch.bfloat16, hidden=48, seed=9)
    made = make_gemma3_pair(tmp_path, tiny)
    pieces: Pieces = [text(13), Square(tiny), text(70, 1)]
    exact = our_logits(made.model, pieces)
    ours = rms_ratio(our_logits(load(tmp_path, torch.bfloat16), pieces), exact)
    oracle = Gemma3ForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.bfloat16)
    theirs = rms_ratio(oracle_logits(Pair(oracle, made.model), pieces).float(), exact)
    assert ours <= 3e-2 and ours <= 1.1 * theirs


def test_the_embedding_scale_is_rounded_as_in_training(tmp_path: Path) -> None:
    made = make_gemma3_pair(tmp_path, TinyGemma3(hidden=48, dtype=torch.bfloat16, seed=10))
    model: Any = load(tmp_path, torch.bfloat16)
    assert model._multipliers[0] == 6.9375 != 48**0.5
    oracle: Any = Gemma3ForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.bfloat16)
    ids = torch.arange(40)
    assert torch.equal(model.embed(ids), oracle.get_input_embeddings()(ids))
    assert made.model.dtype == torch.float32
