"""LFM2 against transformers' own implementation, on tiny random checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import Lfm2ForCausalLM

from tests.oracle.runs import (
    Pair,
    assert_every_cut,
    assert_greedy_tokens,
    assert_same,
    load,
    oracle_logits,
    our_logits,
    rms_ratio,
    text,
)
from tests.oracle.tiny_lfm2 import TinyLfm2, make_lfm2_pair

VARIANTS = {
    "hybrid": TinyLfm2(),
    "untied": TinyLfm2(tied=False, adjusted=False, seed=1),
    "biases": TinyLfm2(bias=True, taps=4, seed=2),
    "one-key-head": TinyLfm2(hidden=24, heads=3, kv_heads=1, layers="FCF", seed=3),
    "only-convolutions": TinyLfm2(layers="CC", taps=2, seed=4),
    "only-attention": TinyLfm2(layers="FF", max_shard_size="20KB", seed=5),
}
LONG = [text(150)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_lfm2_pair(tmp_path_factory.mktemp("lfm2"), VARIANTS["hybrid"])


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_agree(tiny: TinyLfm2, tmp_path: Path) -> None:
    made = make_lfm2_pair(tmp_path, tiny)
    assert_same(our_logits(made.model, LONG), oracle_logits(made, LONG))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 65, 1023, 1025, 2050])
def test_run_lengths_around_blocks_agree(pair: Pair, count: int) -> None:
    pieces = [text(count)]
    assert_same(our_logits(pair.model, pieces), oracle_logits(pair, pieces))


def test_greedy_tokens_are_the_same(pair: Pair) -> None:
    assert_greedy_tokens(pair, LONG)


def test_every_cut_equals_one_shot(pair: Pair) -> None:
    assert_every_cut(pair, LONG)


def test_token_by_token_equals_one_shot(pair: Pair) -> None:
    assert_same(our_logits(pair.model, LONG, range(1, 150)), oracle_logits(pair, LONG))


def test_bfloat16_is_close_to_float32_and_no_rougher_than_the_oracle(tmp_path: Path) -> None:
    made = make_lfm2_pair(tmp_path, TinyLfm2(dtype=torch.bfloat16, seed=9))
    exact = our_logits(made.model, LONG)
    ours = rms_ratio(our_logits(load(tmp_path, torch.bfloat16), LONG), exact)
    oracle = Lfm2ForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    theirs = rms_ratio(oracle_logits(Pair(oracle, made.model), LONG).float(), exact)
    assert ours <= 2e-2 and ours <= 1.1 * theirs
