"""LFM2-VL against transformers' own implementation, on tiny random checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Lfm2VlForConditionalGeneration

from tests.oracle.runs import (
    TOLERANCE,
    Pair,
    Pieces,
    assert_same,
    deviation,
    greedy,
    inputs,
    load,
    logits_between,
    our_logits,
    rms_ratio,
    text,
)
from tests.oracle.tiny_lfm2_vl import (
    Shaped,
    TinyLfm2Vl,
    make_lfm2_vl_pair,
    oracle_inputs,
    oracle_logits,
    write_lfm2_vl,
)
from tests.oracle.tiny_text import TinyLfm2

VARIANTS = {
    "plain": TinyLfm2Vl(),
    "untied": TinyLfm2Vl(TinyLfm2("FC", tied=False), projector_norm=False, depth=3, seed=1),
    "other-widths": TinyLfm2Vl(
        TinyLfm2("CF", hidden=48), hidden=36, heads=3, positions=9, projector_bias=False, seed=2
    ),
    "one-position": TinyLfm2Vl(TinyLfm2("CFC", bias=True), positions=1, heads=1, seed=3),
}
SEVERAL: Pieces = [
    text(3),
    Shaped(6, 10, 1),
    text(2, 1),
    Shaped(2, 4, 2),
    text(2, 2),
    Shaped(2, 2, 3),
    text(3, 3),
]
# 102 tokens: two pictures at 13 to 18 and 36 to 39.
MIXED: Pieces = [text(13), Shaped(4, 6), text(17, 1), Shaped(2, 8, 1), text(62, 2)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_lfm2_vl_pair(tmp_path_factory.mktemp("plain"), VARIANTS["plain"])


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_agree(tiny: TinyLfm2Vl, tmp_path: Path) -> None:
    made = make_lfm2_vl_pair(tmp_path, tiny)
    for pieces in ([text(150, tiny.seed)], SEVERAL, MIXED):
        assert_same(our_logits(made.model, pieces), oracle_logits(made, pieces))


@pytest.mark.parametrize("pieces", [[text(40)], SEVERAL], ids=["text", "pictures"])
def test_greedy_tokens_are_the_same(pair: Pair, pieces: Pieces) -> None:
    given = oracle_inputs(pieces)
    count = given["input_ids"].shape[1]
    oracle: Any = pair.oracle
    made = oracle.generate(
        **given,
        attention_mask=torch.ones(1, count, dtype=torch.long),
        max_new_tokens=24,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    chosen = made.sequences[0, count:].tolist()
    assert len(chosen) == 24
    assert_same(greedy(pair.model, pieces, chosen), torch.cat(made.logits))


def test_every_cut_equals_one_shot(pair: Pair) -> None:
    expected, given = oracle_logits(pair, MIXED), inputs(pair.model, MIXED)
    found = [logits_between(pair.model, given, [cut]) for cut in range(1, len(expected))]
    assert max(deviation(logits, expected) for logits in found) <= TOLERANCE


def test_token_by_token_equals_one_shot(pair: Pair) -> None:
    expected = oracle_logits(pair, MIXED)
    assert_same(our_logits(pair.model, MIXED, range(1, len(expected))), expected)


def test_bfloat16_is_close_to_float32_and_no_rougher_than_the_oracle(tmp_path: Path) -> None:
    made = make_lfm2_vl_pair(tmp_path, TinyLfm2Vl(dtype=torch.bfloat16, seed=9))
    exact = our_logits(made.model, MIXED)
    ours = rms_ratio(our_logits(load(tmp_path, torch.bfloat16), MIXED), exact)
    oracle = Lfm2VlForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.bfloat16)
    theirs = rms_ratio(oracle_logits(Pair(oracle, made.model), MIXED).float(), exact)
    assert ours <= 2e-2 and ours <= 1.1 * theirs


def test_the_older_spelling_of_the_tower_gives_the_same_bits(tmp_path: Path) -> None:
    write_lfm2_vl(tmp_path, VARIANTS["plain"])
    expected, file = our_logits(load(tmp_path), MIXED), tmp_path / "model.safetensors"
    tower, older = "model.vision_tower.", "model.vision_tower.vision_model."
    tensors = load_file(file)
    assert not any(name.startswith(older) for name in tensors)
    save_file({name.replace(tower, older): each for name, each in tensors.items()}, file)
    assert torch.equal(our_logits(load(tmp_path), MIXED), expected)
