"""Falcon-H1 against transformers' own implementation, on tiny random checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import FalconH1ForCausalLM

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
from tests.oracle.tiny_falcon_h1 import TinyFalconH1, make_falcon_h1_pair

NORM_LAST = {"mamba_rms_norm": True, "mamba_norm_before_gate": False}
NORM_FIRST = {"mamba_rms_norm": True, "mamba_norm_before_gate": True}
BIASES = dict.fromkeys(("attention_bias", "mlp_bias", "projectors_bias", "mamba_proj_bias"), True)
VARIANTS = {
    "plain": TinyFalconH1(),
    "tied": TinyFalconH1(tied=True, seed=1),
    "without-multipliers": TinyFalconH1(multipliers={}, theta=1e4, seed=2),
    "gate-before-norm": TinyFalconH1(groups=2, others=NORM_LAST, seed=3),
    "norm-before-gate": TinyFalconH1(groups=2, others=NORM_FIRST, seed=4),
    "biases": TinyFalconH1(others=BIASES, seed=5),
    "no-conv-bias": TinyFalconH1(others={"mamba_conv_bias": False}, kernel=2, seed=6),
    "odd": TinyFalconH1(
        hidden=24, heads=3, kv_heads=1, mamba_heads=6, mamba_dim=10, groups=3, state_dim=24, seed=7
    ),
    "limited-steps": TinyFalconH1(others={"time_step_limit": [0.05, 0.8]}, seed=8),
}
LONG = [text(150)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_falcon_h1_pair(tmp_path_factory.mktemp("falcon_h1"), VARIANTS["gate-before-norm"])


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_agree(tiny: TinyFalconH1, tmp_path: Path) -> None:
    made = make_falcon_h1_pair(tmp_path, tiny)
    assert_same(our_logits(made.model, LONG), oracle_logits(made, LONG))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 63, 64, 65, 129, 1025])
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
    made = make_falcon_h1_pair(tmp_path, TinyFalconH1(dtype=torch.bfloat16, seed=9))
    exact = our_logits(made.model, LONG)
    ours = rms_ratio(our_logits(load(tmp_path, torch.bfloat16), LONG), exact)
    oracle = FalconH1ForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    theirs = rms_ratio(oracle_logits(Pair(oracle, made.model), LONG).float(), exact)
    assert ours <= 2e-2 and ours <= 1.1 * theirs
