"""Llama and Qwen3 against transformers' own implementations, on tiny random checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from core.loading.registry import FAMILIES
from core.weights.folder import ModelFolder
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
from tests.oracle.tiny_llama import LLAMA3_ROPE, TinyLlama, make_llama_pair

VARIANTS = {
    "llama": TinyLlama(),
    "llama-tied": TinyLlama(tied=True, seed=1),
    "llama-long": TinyLlama(rope=LLAMA3_ROPE, seed=2),
    "llama-linear": TinyLlama(rope={"rope_type": "linear", "factor": 4.0}, seed=3),
    "llama-biases": TinyLlama(attention_bias=True, mlp_bias=True, seed=4),
    "llama-one-key-head": TinyLlama(heads=3, hidden=24, kv_heads=1, head_dim=6, seed=5),
    "qwen3": TinyLlama("qwen3", seed=6),
    "qwen3-tied": TinyLlama("qwen3", tied=True, attention_bias=True, seed=7),
    "qwen3-sharded": TinyLlama("qwen3", max_shard_size="20KB", kv_heads=4, seed=8),
}
LONG = [text(150)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_llama_pair(tmp_path_factory.mktemp("qwen3"), VARIANTS["qwen3"])


@pytest.mark.parametrize("tiny", VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_agree(tiny: TinyLlama, tmp_path: Path) -> None:
    made = make_llama_pair(tmp_path, tiny)
    assert_same(our_logits(made.model, LONG), oracle_logits(made, LONG))


@pytest.mark.parametrize("count", [1, 2, 255, 257, 1025])
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
    made = make_llama_pair(tmp_path, TinyLlama(dtype=torch.bfloat16, seed=9))
    exact = our_logits(made.model, LONG)
    ours = rms_ratio(our_logits(load(tmp_path, torch.bfloat16), LONG), exact)
    oracle = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    theirs = rms_ratio(oracle_logits(Pair(oracle, made.model), LONG).float(), exact)
    assert ours <= 2e-2 and ours <= 1.1 * theirs


def test_a_written_config_is_read_as_it_was_meant(tmp_path: Path) -> None:
    make_llama_pair(tmp_path, VARIANTS["llama-long"])
    config = FAMILIES["llama"].parse(ModelFolder.open(tmp_path).config)
    assert config.rope_parameters.rope_type == "llama3"
    assert config.rope_parameters.original_max_position_embeddings == 64
