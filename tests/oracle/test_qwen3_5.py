"""Qwen3.5 against transformers' own implementation, on tiny random checkpoints in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3_5ForConditionalGeneration

from tests.oracle.checkpoints import Tiny
from tests.oracle.runs import (
    TOLERANCE,
    Pair,
    Picture,
    Pieces,
    assert_same,
    deviation,
    greedy,
    inputs,
    load,
    logits_between,
    make_pair,
    oracle_inputs,
    oracle_logits,
    our_logits,
    positions,
    prompt_of,
    rms_ratio,
    text,
)

VARIANTS = {
    "hybrid": Tiny(),
    "untied": Tiny(tied=False, seed=1),
    "text-only": Tiny(text_only=True, tied=False, seed=2),
    "text-only-tied": Tiny(text_only=True, seed=3),
    "one-key-head": Tiny(heads=6, kv_heads=1, key_heads=1, value_heads=3, seed=4),
    "no-groups": Tiny(heads=2, kv_heads=2, key_heads=3, value_heads=3, seed=5),
    "wide-keys": Tiny(key_dim=32, value_dim=16, seed=6),
    "full-first": Tiny(layers="FLFL", seed=7),
    "only-linear": Tiny(layers="LLL", seed=8),
    "only-full": Tiny(layers="FF", seed=9),
    "biases": Tiny(attention_bias=True, seed=10),
    "sharded": Tiny(max_shard_size="40KB", tied=False, seed=11),
}
PICTURES: dict[str, Pieces] = {
    "one": [text(5), Picture(4, 6), text(4, 1)],
    "several": [
        text(3),
        Picture(6, 10, 1),
        text(2, 1),
        Picture(2, 4, 2),
        text(2, 2),
        Picture(14, 2, 3),
        text(3, 3),
    ],
    "one-token": [text(2), Picture(2, 2, 4), text(1), Picture(4, 2, 5), text(1)],
    "long": [text(2), Picture(18, 22, 6), text(70)],
    "larger-than-table": [text(3), Picture(26, 8, 7), text(2)],
}
# 156 tokens: two pictures, and more than two chunks of 64.
MIXED: Pieces = [text(13), Picture(4, 6), text(17, 1), Picture(2, 8, 1), text(116, 2)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("hybrid"), Tiny(), "cpu")


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_text_logits_agree(tiny: Tiny, tmp_path: Path) -> None:
    made = make_pair(tmp_path, tiny)
    pieces = [text(150, tiny.seed)]
    assert_same(our_logits(made.model, pieces), oracle_logits(made, pieces))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 63, 64, 65, 128, 129, 1025])
def test_run_lengths_around_blocks_agree(pair: Pair, count: int) -> None:
    pieces = [text(count)]
    assert_same(our_logits(pair.model, pieces), oracle_logits(pair, pieces))


@pytest.mark.parametrize("pieces", PICTURES.values(), ids=PICTURES.keys())
def test_picture_logits_agree(pair: Pair, pieces: Pieces) -> None:
    assert_same(our_logits(pair.model, pieces), oracle_logits(pair, pieces))


@pytest.mark.parametrize(
    "tiny",
    [
        Tiny(vision_heads=1, vision_hidden=48, vision_positions=16, seed=20),
        Tiny(vision_heads=3, vision_hidden=24, vision_positions=1, vision_depth=1, seed=21),
        Tiny(hidden=48, vision_depth=3, tied=False, seed=22),
    ],
    ids=["one-head", "one-position", "other-width"],
)
def test_towers_agree(tiny: Tiny, tmp_path: Path) -> None:
    made = make_pair(tmp_path, tiny)
    for pieces in (PICTURES["one"], PICTURES["several"]):
        assert_same(our_logits(made.model, pieces), oracle_logits(made, pieces))


@pytest.mark.parametrize("pieces", PICTURES.values(), ids=PICTURES.keys())
def test_position_ids_are_equal(pair: Pair, pieces: Pieces) -> None:
    given = oracle_inputs(pieces)
    given.pop("pixel_values")
    oracle: Any = pair.oracle
    expected, delta = oracle.model.get_rope_index(**given)
    assert torch.equal(positions(pieces), expected[:, 0])
    end = prompt_of(pieces).end
    assert end.position.value - end.token.value == int(delta)


@pytest.mark.parametrize("pieces", [[text(40)], PICTURES["several"]], ids=["text", "pictures"])
def test_greedy_tokens_are_the_same(pair: Pair, pieces: Pieces) -> None:
    given = oracle_inputs(pieces)
    oracle: Any = pair.oracle
    made = oracle.generate(
        **given,
        max_new_tokens=24,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    chosen = made.sequences[0, given["input_ids"].shape[1] :].tolist()
    assert len(chosen) == 24
    assert_same(greedy(pair.model, pieces, chosen), torch.cat(made.logits))


def test_every_legal_cut_equals_one_shot(pair: Pair) -> None:
    expected = oracle_logits(pair, MIXED)
    inside = {13 + place for place in range(1, 6)} | {36 + place for place in range(1, 4)}
    legal = [cut for cut in range(1, expected.shape[0]) if cut not in inside]
    given = inputs(pair.model, MIXED)
    found = [logits_between(pair.model, given, [cut]) for cut in legal]
    assert len(found) == expected.shape[0] - 1 - len(inside)
    assert max(deviation(logits, expected) for logits in found) <= TOLERANCE


@pytest.mark.parametrize("grid", [1, 2, 3, 7, 64, 100])
def test_canonical_cuts_equal_one_shot(pair: Pair, grid: int) -> None:
    prompt = prompt_of(MIXED, grid)
    cuts = [cut.token.value for cut in prompt.cuts if cut != prompt.end]
    assert len(cuts) >= 5
    assert_same(our_logits(pair.model, MIXED, cuts), oracle_logits(pair, MIXED))


def test_token_by_token_equals_one_shot(pair: Pair) -> None:
    found = our_logits(pair.model, MIXED, range(1, prompt_of(MIXED).num_tokens))
    assert_same(found, oracle_logits(pair, MIXED))


def test_bfloat16_stays_close_to_float32(tmp_path: Path) -> None:
    made = make_pair(tmp_path, Tiny(layers="LF", dtype=torch.bfloat16, tied=False))
    rough = our_logits(load(tmp_path, torch.bfloat16), MIXED)
    assert rms_ratio(rough, our_logits(made.model, MIXED)) <= 2e-2


def test_bfloat16_is_no_rougher_than_the_oracle(tmp_path: Path) -> None:
    made = make_pair(tmp_path, Tiny(dtype=torch.bfloat16, seed=3))
    exact = our_logits(made.model, MIXED)
    ours = rms_ratio(our_logits(load(tmp_path, torch.bfloat16), MIXED), exact)
    oracle = Qwen3_5ForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.bfloat16)
    theirs = rms_ratio(oracle_logits(Pair(oracle, made.model), MIXED).float(), exact)
    assert ours <= 1.1 * theirs
